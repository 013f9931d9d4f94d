//! Where the real scheduler puts a run.

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::release::{Place, eventually, node, release};
use crate::sets;

const DONOR: &str = "k8s-pool1-12345678-vmss000000";

fn linux(more: &Value) -> Value {
    let mut labels = json!({ "kubernetes.io/os": "linux" });
    let all = labels.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    labels
}

/// Where the only pod of a release is, once the scheduler has said something about it.
fn verdict(place: &Place, release: &str) -> Result<String, String> {
    eventually("the scheduler has spoken", || {
        let pod = place.pod(release);
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Some(Ok(node.to_owned()));
        }
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut refused = conditions.filter(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        refused.next().map(|one| Err(one["message"].as_str().unwrap_or_default().to_owned()))
    })
}

#[test]
fn a_run_is_never_on_its_donor_and_finds_control_planes_old_and_new() {
    let cluster = ControlPlane::start(&Options::default().with_scheduler()).unwrap();
    let place = Place::enforcing(&cluster, "restricted");
    let run = |more: Vec<(&'static str, Value)>| {
        let release = release();
        let _ = place.install(&release, &[sets::update(), sets::identity(), more].concat()).success();
        let verdict = verdict(&place, &release);
        if let Ok(node) = &verdict {
            cluster.run_kubectl(&["cordon", node]).unwrap();
            place.end(&release);
        }
        place.uninstall(&release);
        verdict
    };
    let only_control_planes = || vec![("kamino.scheduleOnControlPlane", json!(true))];

    node(&cluster, DONOR, &linux(&json!({})), &json!([]));
    let alone = run(Vec::new()).unwrap_err();
    assert!(alone.contains("didn't match Pod's node affinity"), "the donor is the only node: {alone}");

    node(&cluster, "worker", &linux(&json!({})), &json!([]));
    let none = run(only_control_planes()).unwrap_err();
    assert!(none.contains("didn't match Pod's node affinity"), "there is no control plane yet: {none}");

    // Each is cordoned after it was taken, so that the next one shows that its own label and taint will do.
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
    // Said again that it is well: nobody else does.
    node(&cluster, "worker", &linux(&json!({})), &json!([]));
    assert_eq!(run(Vec::new()), Ok("worker".to_owned()));
}
