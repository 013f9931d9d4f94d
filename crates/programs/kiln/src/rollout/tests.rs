//! The page of a rollout in every phase, in one golden file for review (`tests/messages/golden/rollout-status.txt`).

use std::collections::BTreeSet;
use std::path::Path;

use kiln_fleet_api::{NodeState, Rollout, RolloutPhase};
use serde_json::{Value, json};

use super::text::{failure, lines, page};
use super::view::{View, view};

const DIGEST: &str = "3f2a91c0d4e5f6a7b8c90123456789ab";

fn rollout(spec: &Value, status: &Value) -> Rollout {
    let mut object = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "Rollout",
        "metadata": {
            "name": "web-3f2a91c0", "generation": 2, "creationTimestamp": "2026-08-01T09:00:00Z",
            "annotations": {"node.kiln.dev/created-by": "alice@laptop"},
        },
        "spec": {"pools": ["web", "api"], "target": {"nodeConfig": "web-3f2a91c0", "digest": DIGEST}},
        "status": {
            "observedGeneration": 2, "digest": DIGEST, "planText": "restart:38,drain:2", "total": 40,
            "previous": {"web": {"nodeConfig": "web-00aa11bb"}, "api": {"nodeConfig": "web-00aa11bb"}},
        },
    });
    merge(&mut object["spec"], spec);
    merge(&mut object["status"], status);
    serde_json::from_value(object).expect("a Rollout")
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn wave(size: i64, done: i64, failed: i64, verdict: &str) -> Value {
    json!({
        "size": size, "done": done, "failed": failed, "verdict": verdict,
        "startedAt": (verdict != "Waiting").then_some("2026-08-01T10:00:00Z"),
        "doneAt": (done + failed == size).then_some("2026-08-01T10:04:00Z"),
    })
}

fn node(name: &str, phase: &str, effect: &str, message: &str) -> NodeState {
    let object = json!({"metadata": {"name": name}, "spec": {}, "status": {"phase": phase, "effect": effect, "message": message}});
    serde_json::from_value(object).expect("a NodeState")
}

fn waiting(reason: &str, message: &str, until: Option<&str>, objects: &[&str]) -> Value {
    json!({"reason": reason, "message": message, "until": until, "objects": objects})
}

/// A rollout in each phase, and in each state that a person can bring it into.
fn stories() -> Vec<(&'static str, View)> {
    let none = json!({});
    let running = json!({
        "phase": "Progressing", "startedAt": "2026-08-01T10:00:00Z", "eta": "2026-08-01T11:30:00Z", "updated": 1,
        "waves": [wave(1, 1, 0, "Passed"), wave(3, 0, 0, "Running"), wave(36, 0, 0, "Waiting")],
        "inFlight": ["node-2", "node-3"],
        "waitingFor": waiting("Nodes", "node-2 and 1 other are in flight", None, &["node-2", "node-3"]),
    });
    let failed = json!({
        "startedAt": "2026-08-01T10:00:00Z", "failed": 1, "waves": [wave(1, 0, 1, "Failed"), wave(3, 0, 0, "Waiting")],
        "failures": [{"node": "node-1", "reason": "gate `kubelet` failed: not Ready after 120 s"}],
    });
    let with = |base: &Value, changes: &Value| {
        let mut status = base.clone();
        merge(&mut status, changes);
        status
    };
    let nodes = [node("node-2", "Pending", "drain", "waits for a drain"), node("node-3", "OnTrial", "restart", "")];
    let mut unread = rollout(&none, &none);
    unread.status = None;
    let mut by_kubectl = rollout(&none, &with(&running, &json!({"waitingFor": null})));
    by_kubectl.metadata.annotations = None;
    by_kubectl.metadata.generation = Some(3);
    by_kubectl.metadata.managed_fields = serde_json::from_value(json!([
        {"manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "node.kiln.dev/v1alpha1"},
        {"manager": "kiln-operator", "operation": "Apply", "subresource": "status"},
    ]))
    .expect("managed fields");
    let mut paused = rollout(
        &json!({"paused": true}),
        &with(
            &running,
            &json!({
                "inFlight": [], "waitingFor": waiting("Paused", "the rollout is paused; `kiln rollout resume web-3f2a91c0` continues it", None, &[]),
            }),
        ),
    );
    paused
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("node.kiln.dev/changed-by".to_owned(), "bob@bastion, pause, 2026-08-01T10:20:00Z".to_owned());
    let soak = waiting("Soak", "wave 1 soaks.", Some("2026-08-01T10:34:00Z"), &[]);
    let freeze = waiting("Freeze", "a freeze: incident 4711", None, &["freeze-x7k2p"]);
    let ended = |phase: &str| json!({"phase": phase, "endedAt": "2026-08-01T10:10:00Z"});
    let complete = with(
        &ended("Complete"),
        &json!({"updated": 40, "startedAt": "2026-08-01T10:00:00Z", "waves": [wave(1, 1, 0, "Passed"), wave(39, 39, 0, "Passed")]}),
    );
    let halted = with(&failed, &ended("Halted"));
    vec![
        ("not read by the operator", view(&unread, &[])),
        (
            "pending because a reference is missing",
            view(
                &rollout(
                    &none,
                    &json!({
                        "phase": "Pending", "previous": {}, "total": 0, "planText": "",
                        "waitingFor": waiting("Reference", "Pool `web` does not exist; create it", None, &["web"]),
                    }),
                ),
                &[],
            ),
        ),
        ("progressing", view(&rollout(&none, &running), &nodes)),
        ("progressing, created by kubectl and changed since", view(&by_kubectl, &nodes[..1])),
        ("soaking", view(&rollout(&none, &with(&running, &json!({"inFlight": [], "waitingFor": soak}))), &[])),
        ("frozen", view(&rollout(&none, &with(&running, &json!({"inFlight": [], "waitingFor": freeze}))), &[])),
        ("paused", view(&paused, &[])),
        ("aborted with nodes in flight", view(&rollout(&json!({"aborted": true}), &running), &nodes)),
        ("progressing with onFailure: Halt", view(&rollout(&json!({"onFailure": "Halt"}), &running), &nodes)),
        (
            "rolling back",
            view(&rollout(&none, &with(&failed, &json!({"phase": "RollingBack", "inFlight": ["node-2"]}))), &nodes),
        ),
        ("rolled back", view(&rollout(&none, &with(&failed, &ended("RolledBack"))), &[])),
        ("halted", view(&rollout(&json!({"onFailure": "Halt"}), &halted), &[])),
        (
            "halted on pools without an earlier target",
            view(&rollout(&none, &with(&halted, &json!({"previous": {}}))), &[]),
        ),
        ("aborted", view(&rollout(&json!({"aborted": true}), &ended("Aborted")), &[])),
        ("complete", view(&rollout(&none, &complete), &[])),
    ]
}

#[test]
fn page_of_every_phase_is_as_reviewed() {
    let stories = stories();
    let phases: BTreeSet<&str> = stories.iter().map(|(_, view)| view.phase.as_str()).collect();
    assert_eq!(phases.len(), 7, "each phase has a story: {phases:?}");
    let text = stories.iter().fold(String::new(), |text, (name, view)| format!("{text}== {name}\n{}\n", page(view)));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages/golden/rollout-status.txt");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &text).expect("write the golden file");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "run the test with KILN_BLESS=1 and review {}", path.display());
}

#[test]
fn every_open_rollout_says_how_to_stop_it_and_every_ended_one_that_it_has_ended() {
    for (name, view) in stories() {
        let stop = &view.answers.stop;
        let is_possible = stop.contains("kiln rollout abort") || view.aborted;
        assert_eq!(view.phase.is_final(), stop == "it has ended", "{name}");
        assert!(view.phase.is_final() || is_possible, "{name}: {stop}");
    }
}

#[test]
fn only_a_complete_rollout_is_a_success() {
    for (name, view) in stories() {
        let is_bad = matches!(view.phase, RolloutPhase::Halted | RolloutPhase::RolledBack | RolloutPhase::Aborted);
        assert_eq!(failure(&view).is_some(), is_bad, "{name}");
    }
}

#[test]
fn log_names_waves_nodes_failures_and_the_reason_to_wait() {
    let all = stories();
    let of = |name: &str| lines(&all.iter().find(|(story, _)| *story == name).expect("a story").1);
    assert_eq!(
        of("progressing"),
        [
            "web-3f2a91c0: Progressing, 1 of 40 nodes updated, 0 failed",
            "wave 1 of 3: passed, 1 of 1 nodes updated",
            "wave 2 of 3: running, 0 of 3 nodes updated",
            "node node-2: Pending, waits for a drain",
            "node node-3: OnTrial",
            "waiting for: node-2 and 1 other are in flight (`node-3`)",
        ]
    );
    assert!(of("rolled back").contains(&"node node-1 failed: gate `kubelet` failed: not Ready after 120 s".to_owned()));
}
