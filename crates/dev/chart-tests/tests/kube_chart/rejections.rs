//! What is refused, and with which words.

use chart_tests::Helm;
use serde_json::{Value, json};

use crate::sets::{self, Values};

#[track_caller]
fn refused(helm: &Helm, values: &Values, words: &[&str]) {
    let message = helm.render(values).map(|rendered| rendered.text).unwrap_err().0;
    for word in words {
        assert!(message.contains(word), "{values:?} is refused without `{word}`: {message}");
    }
}

#[test]
fn unknown_and_wrong_values_are_refused_by_name() {
    let helm = Helm::new();
    let cases: [(&'static str, Value, &[&str]); 16] = [
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
        ("kiln.output", json!("yaml"), &["/kiln/output", "'text', 'json'"]),
        ("azure.credential", json!("guess"), &["/azure/credential"]),
        ("azure.subscription", json!("mine"), &["/azure/subscription"]),
        ("azure.azureJson.hostPath", json!("azure.json"), &["/azure/azureJson/hostPath"]),
    ];
    for (path, value, words) in cases {
        refused(&helm, &vec![(path, value)], words);
    }
}

#[test]
fn what_belongs_together_must_be_there_together() {
    let helm = Helm::new();
    let without = |values: Values, path: &str| values.into_iter().filter(|(one, _)| *one != path).collect::<Vec<_>>();
    for path in ["kamino.auto.lastPatchAnnotation", "kamino.auto.pendingRebootAnnotation"] {
        refused(&helm, &without(sets::auto(), path), &[path, "is needed with kamino.targetVMSS"]);
    }
    let identity = [
        "azure.resourceGroup",
        "azure.subscription",
        "azure.workloadIdentity.clientId",
        "azure.workloadIdentity.tenantId",
    ];
    for path in identity {
        refused(&helm, &without(sets::identity(), path), &[path, "is needed with azure.credential=workloadIdentity"]);
    }
    refused(&helm, &vec![("kamino.container.pullByHash", json!(true))], &["kamino.container.imageHash is needed"]);
    refused(&helm, &vec![("serviceAccount.create", json!(false))], &["serviceAccount.name is needed"]);
    let both = vec![("caBundle.configMap", json!("a")), ("caBundle.secret", json!("b"))];
    refused(&helm, &both, &["caBundle.configMap and caBundle.secret are both set"]);
}

#[test]
fn a_server_that_is_too_old_is_refused() {
    let refusal = Helm::new().template(&["--kube-version", "1.20.0"]).map(|rendered| rendered.text).unwrap_err();
    assert!(refusal.0.contains("1.21.0"), "{}", refusal.0);
}
