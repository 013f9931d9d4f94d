//! Rejected values and their messages.

use chart_tests::Helm;
use serde_json::{Value, json};

use crate::sets::{self, Values};

#[track_caller]
fn assert_rejected(helm: &Helm, values: &Values, expected: &[&str]) {
    let message = helm.render(values).map(|rendered| rendered.text).unwrap_err().0;
    for part in expected {
        assert!(message.contains(part), "`{part}` is missing for {values:?}: {message}");
    }
}

#[test]
fn unknown_and_invalid_values_are_rejected_by_name() {
    let helm = Helm::new();
    let cases: [(&'static str, Value, &[&str]); 18] = [
        ("kamino.targetNodes", json!("n"), &["/kamino", "'targetNodes' not allowed"]),
        ("kamnio.targetNode", json!("n"), &["'kamnio' not allowed"]),
        ("kamino.drain.grace", json!(1), &["/kamino/drain", "'grace' not allowed"]),
        ("kamino.imageHistory", json!(1), &["/kamino/imageHistory", "got 1, want 2"]),
        ("kamino.imageHistory", json!("3"), &["/kamino/imageHistory", "got string, want integer"]),
        ("kamino.logLevel", json!("VERBOSE"), &["/kamino/logLevel", "'DEBUG', 'INFO'"]),
        ("kamino.targetNode", json!("Not A Node"), &["/kamino/targetNode", "pattern"]),
        ("kamino.newUpdatedNodes", json!(-1), &["/kamino/newUpdatedNodes"]),
        ("kamino.auto.minimumReadyTime", json!("1 hour"), &["/kamino/auto/minimumReadyTime", "pattern"]),
        ("kamino.auto.minimumCandidates", json!(0), &["/kamino/auto/minimumCandidates", "want 1"]),
        ("kamino.auto.cronjob.schedule", json!("every night"), &["/kamino/auto/cronjob/schedule"]),
        ("kamino.container.imageHash", json!("abc"), &["/kamino/container/imageHash"]),
        ("operator.replicas", json!(0), &["/operator/replicas", "want 1"]),
        ("operator.kured.daemonset", json!("x"), &["/operator/kured", "'daemonset' not allowed"]),
        ("kiln.output", json!("yaml"), &["/kiln/output", "'text', 'json'"]),
        ("azure.credential", json!("guess"), &["/azure/credential"]),
        ("azure.subscription", json!("mine"), &["/azure/subscription"]),
        ("azure.azureJson.hostPath", json!("azure.json"), &["/azure/azureJson/hostPath"]),
    ];
    for (path, value, expected) in cases {
        assert_rejected(&helm, &vec![(path, value)], expected);
    }
}

#[test]
fn dependent_values_are_required_together() {
    let helm = Helm::new();
    let without = |values: Values, path: &str| values.into_iter().filter(|(one, _)| *one != path).collect::<Vec<_>>();
    for path in ["kamino.auto.lastPatchAnnotation", "kamino.auto.pendingRebootAnnotation"] {
        assert_rejected(&helm, &without(sets::auto(), path), &[path, "is required with kamino.targetVMSS"]);
    }
    let identity = [
        "azure.resourceGroup",
        "azure.subscription",
        "azure.workloadIdentity.clientId",
        "azure.workloadIdentity.tenantId",
    ];
    for path in identity {
        assert_rejected(
            &helm,
            &without(sets::identity(), path),
            &[path, "is required with azure.credential=workloadIdentity"],
        );
    }
    assert_rejected(
        &helm,
        &vec![("kamino.container.pullByHash", json!(true))],
        &["kamino.container.imageHash is required"],
    );
    assert_rejected(&helm, &vec![("serviceAccount.create", json!(false))], &["serviceAccount.name is required"]);
    let both = vec![("caBundle.configMap", json!("a")), ("caBundle.secret", json!("b"))];
    assert_rejected(&helm, &both, &["caBundle.configMap and caBundle.secret are both set"]);
}

#[test]
fn unsupported_server_version_is_rejected() {
    let error = Helm::new().template(&["--kube-version", "1.20.0"]).map(|rendered| rendered.text).unwrap_err();
    assert!(error.0.contains("1.21.0"), "{}", error.0);
    let operator = ["--set", "operator.enabled=true", "--kube-version", "1.29.9"];
    let error = Helm::new().template(&operator).map(|rendered| rendered.text).unwrap_err();
    assert!(error.0.contains("operator.enabled requires Kubernetes 1.30"), "{}", error.0);
}
