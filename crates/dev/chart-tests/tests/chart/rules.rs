//! The chart's roles match the permission table of `kiln-kubernetes`.

use std::fmt::Write as _;

use chart_tests::{chart, golden};
use kiln_kubernetes::rbac::{
    FORCE_PERMISSIONS, IMAGE_PERMISSIONS, OPERATOR_PERMISSIONS, PER_NODE_READ_PERMISSIONS, PERMISSIONS, Permission,
    Scope,
};

/// Rules in the format of the chart: one verb each, with its purpose.
fn rules<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> String {
    let mut text = String::new();
    for Permission { group, resource, verb, needed_to, .. } in permissions {
        let _ = write!(
            text,
            "# {needed_to}\n- apiGroups: [\"{group}\"]\n  resources: [\"{resource}\"]\n  verbs: [\"{verb}\"]\n"
        );
    }
    text
}

#[test]
fn chart_rules_are_generated_from_the_permission_table() {
    let files = chart().join("files");
    for (scope, name) in [(Scope::Cluster, "cluster"), (Scope::Namespace, "namespace")] {
        let run = PERMISSIONS.iter().filter(|one| one.scope == scope);
        golden(&files.join(format!("rules-{name}.yaml")), &rules(run));
        let operator = OPERATOR_PERMISSIONS.iter().filter(|one| one.scope == scope);
        golden(&files.join(format!("rules-operator-{name}.yaml")), &rules(operator));
        let images = IMAGE_PERMISSIONS.iter().filter(|one| one.scope == scope);
        golden(&files.join(format!("rules-images-{name}.yaml")), &rules(images));
    }
    golden(&files.join("rules-force.yaml"), &rules(&FORCE_PERMISSIONS));
    golden(&files.join("rules-operator-per-node-read.yaml"), &rules(&PER_NODE_READ_PERMISSIONS));
}
