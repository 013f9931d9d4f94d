//! Scheduling of a run by the real scheduler.

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::release::{TestNamespace, eventually, node, release};
use crate::sets;

const DONOR: &str = "k8s-pool1-12345678-vmss000000";

fn linux(more: &Value) -> Value {
    let mut labels = json!({ "kubernetes.io/os": "linux" });
    let all = labels.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    labels
}

/// The node of a release's pod, or the scheduler's message.
fn scheduling_result(namespace: &TestNamespace, release: &str) -> Result<String, String> {
    eventually("the pod is scheduled or rejected", || {
        let pod = namespace.pod(release);
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Some(Ok(node.to_owned()));
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut rejected = conditions.filter(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        rejected.next().map(|one| Err(one["message"].as_str().unwrap_or_default().to_owned()))
    })
}

#[test]
fn run_never_runs_on_its_donor_and_finds_old_and_new_control_planes() {
    let cluster = ControlPlane::start(&Options::default().with_scheduler()).unwrap();
    let namespace = TestNamespace::enforcing(&cluster, "restricted");
    let run = |more: Vec<(&'static str, Value)>| {
        let release = release();
        let _ = namespace.install(&release, &[sets::update(), sets::identity(), more].concat()).success();
        let result = scheduling_result(&namespace, &release);
        if let Ok(node) = &result {
            cluster.run_kubectl(&["cordon", node]).unwrap();
            namespace.end(&release);
        }
        namespace.uninstall(&release);
        result
    };
    let only_control_planes = || vec![("kamino.scheduleOnControlPlane", json!(true))];

    node(&cluster, DONOR, &linux(&json!({})), &json!([]));
    let alone = run(Vec::new()).unwrap_err();
    assert!(alone.contains("didn't match Pod's node affinity"), "the donor is the only node: {alone}");

    node(&cluster, "worker", &linux(&json!({})), &json!([]));
    let none = run(only_control_planes()).unwrap_err();
    assert!(none.contains("didn't match Pod's node affinity"), "there is no control plane yet: {none}");

    // Each one is cordoned after its use, so that the next one must match by its own label and taint.
    let old_taint = json!([{ "key": "node-role.kubernetes.io/master", "value": "true", "effect": "NoSchedule" }]);
    let new_taint = json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
    for (name, label, taint) in [
        ("oldest", json!({ "kubernetes.io/role": "master" }), &old_taint),
        ("older", json!({ "node-role.kubernetes.io/master": "" }), &old_taint),
        ("newest", json!({ "node-role.kubernetes.io/control-plane": "" }), &new_taint),
    ] {
        node(&cluster, name, &linux(&label), taint);
        assert_eq!(run(only_control_planes()), Ok(name.to_owned()));
    }
    // Renew its heartbeat: no kubelet does.
    node(&cluster, "worker", &linux(&json!({})), &json!([]));
    assert_eq!(run(Vec::new()), Ok("worker".to_owned()));
}
