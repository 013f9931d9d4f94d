//! Sets of values that tests start from.

use chart_tests::{Helm, Rendered};
use serde_json::{Value, json};

pub(crate) type Values = Vec<(&'static str, Value)>;

/// The example of document 004.
pub(crate) fn update() -> Values {
    vec![("kamino.targetNode", json!("k8s-pool1-12345678-vmss000000"))]
}

/// All pools, once.
pub(crate) fn auto() -> Values {
    vec![
        ("kamino.targetVMSS", json!("ALL")),
        ("kamino.auto.lastPatchAnnotation", json!("weave.works/kured-most-recent-reboot-needed")),
        ("kamino.auto.pendingRebootAnnotation", json!("weave.works/kured-reboot-in-progress")),
    ]
}

/// All pools, every night.
pub(crate) fn nightly() -> Values {
    [auto(), vec![("kamino.auto.cronjob.enabled", json!(true))]].concat()
}

/// Only the operator, without a run.
pub(crate) fn operator() -> Values {
    vec![("operator.enabled", json!(true))]
}

/// A workload identity, which every namespace allows.
pub(crate) fn identity() -> Values {
    vec![
        ("azure.credential", json!("workloadIdentity")),
        ("azure.resourceGroup", json!("kubernetes-westus2-17813")),
        ("azure.subscription", json!("11111111-2222-3333-4444-555555555555")),
        ("azure.workloadIdentity.clientId", json!("66666666-7777-8888-9999-aaaaaaaaaaaa")),
        ("azure.workloadIdentity.tenantId", json!("bbbbbbbb-cccc-dddd-eeee-ffffffffffff")),
    ]
}

#[track_caller]
pub(crate) fn rendered(helm: &Helm, values: &[(&str, Value)]) -> Rendered {
    helm.render(values).unwrap_or_else(|error| panic!("{values:?}: {}", error.0))
}
