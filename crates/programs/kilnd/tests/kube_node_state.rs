//! A node follows its NodeState: the custom resources and the API server are real, the operator is the test.

mod support;
mod watched;

use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use control_plane::{Component, unique};
use kiln_node_config::node_state::{Condition, Phase, RequestedAction};
use kiln_node_config::{Effect, NodeConfig, Signature};
use kiln_tls::SigningKey;
use serde_json::{Value, json};
use support::fleet::{install, install_with};
use watched::fleet::{Followed, own_plane};
use watched::hash;
use watched::operator::Operator;

/// From RFC 8410, section 10.3.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

/// A hang check, not a measurement: a watch stays open for minutes.
const NOT_HUNG: Duration = Duration::from_secs(20);

/// The document with a time limit that a loaded machine does not reach: 20 s of kilnd's clock are a second here.
fn with_limit(mut document: Value) -> Value {
    document["spec"]["health"]["withinSeconds"] = json!(240);
    document
}

#[test]
fn assigned_document_is_tried_and_becomes_current() {
    let node = Followed::new("assigned", 0);
    let idle = node.wait_phase(Phase::Idle);
    let current = idle.current.expect("a document");
    assert_eq!((current.generation, current.committed), (5, true));
    assert_eq!((current.digest, idle.kilnd.as_str()), (hash(&node.document(5)), env!("CARGO_PKG_VERSION")));

    // Without heartbeats the trial does not end.
    node.set_kubelet_heartbeats(false);
    let digest = node.assign(&with_limit(node.pods(6, 37)));
    let trial = node.wait_reported("the gates are reported", |status| {
        status.phase == Phase::OnTrial && status.gates.iter().any(|gate| !gate.passed)
    });
    assert_eq!(trial.current.as_ref().map(|current| (&current.digest, current.committed)), Some((&digest, false)));
    assert!(Condition::is_true(&trial.conditions, "OnTrial"), "{:?}", trial.conditions);
    let failing = trial.gates.iter().find(|gate| !gate.passed).expect("a gate");
    assert!(failing.message.contains("no heartbeat"), "{failing:?}");
    node.set_kubelet_heartbeats(true);

    let done = node.wait_phase(Phase::Current);
    let current = done.current.expect("a document");
    assert_eq!((current.digest, current.source.as_str(), current.committed), (digest, "NodeState", true));
    assert!(done.gates.is_empty() && done.requests.is_empty() && done.reverted.is_none());
    assert!(Condition::is_true(&done.conditions, "Configured") && !Condition::is_true(&done.conditions, "OnTrial"));
    assert_eq!(node.current("kubelet.json")["maxPods"], 37);
    let status = node.status();
    assert!(status.contains("from NodeState") && status.contains(&format!("NodeState {} assigns", node.name)));
    assert!(status.contains("rollout r; user data is ignored"), "{status}");
}

#[test]
fn reverted_document_stays_rejected_until_it_is_assigned_again() {
    let mut node = Followed::new("reverts", 1);
    node.set_kubelet_healthy(false);
    let bad = with_limit(node.pods(6, 1));
    let digest = node.assign(&bad);
    let reverted = node.wait_phase(Phase::Reverted);
    assert!(reverted.message.contains("500"), "{}", reverted.message);
    assert_eq!(reverted.reverted.map(|reverted| reverted.digest), Some(digest.clone()));
    assert_eq!(reverted.current.map(|current| current.generation), Some(5), "the previous one is in force");
    node.set_kubelet_healthy(true);
    // Neither a restart nor a requested poll tries it again.
    node.stop();
    node.watch();
    node.wait("kilnd follows again", |node| node.journal().contains("following the NodeState"));
    node.hangup();
    node.wait("kilnd polls", |node| node.journal().contains("SIGHUP received"));
    thread::sleep(Duration::from_secs(2));
    assert_eq!(node.reported().phase, Phase::Reverted);
    assert!(node.current("kubelet.json")["maxPods"].is_null());
    assert!(node.status().contains("not in force: "), "{}", node.status());

    // The same document again.
    let name = unique("config");
    node.store(&name, &bad.to_string());
    node.assign_name(&name, &digest);
    let done = node.wait_phase(Phase::Current);
    assert_eq!((done.reverted, node.current("kubelet.json")["maxPods"].clone()), (None, json!(1)));
}

#[test]
fn wrong_documents_are_refused_and_a_missing_one_is_awaited() {
    let node = Followed::new("wrong", 2);
    let (first, other) = (node.pods(6, 10), node.pods(6, 11));
    let name = unique("config");
    node.store(&name, &first.to_string());
    node.assign_name(&name, &hash(&other));
    let mismatch = node.wait_phase(Phase::Reverted);
    assert!(mismatch.message.contains("has the digest"), "{}", mismatch.message);
    assert_eq!(mismatch.reverted.map(|reverted| reverted.digest), Some(hash(&other)));

    let token = "abcdef.0123456789abcdef";
    let mut with_secret = node.pods(6, 12);
    with_secret["spec"]["files"] = json!([{"path": "/etc/x", "content": format!("token={token}\n")}]);
    let mut as_number = node.pods(6, 12);
    as_number["metadata"]["generation"] = json!(token);
    let mut endpoint = node.pods(6, 12);
    endpoint["spec"]["cluster"]["endpoint"] = json!(format!("ftp://me:{token}@nowhere"));
    for (document, reported) in
        [(with_secret, "spec.files"), (as_number, "metadata.generation"), (endpoint, "spec.cluster.endpoint")]
    {
        let name = unique("config");
        node.store(&name, &document.to_string());
        node.assign_name(&name, &"ab".repeat(32));
        let refused =
            node.wait_reported(reported, |status| status.phase == Phase::Reverted && status.message.contains(reported));
        assert!(Condition::is_true(&refused.conditions, "Reverted"));
    }
    assert!(!node.everything_readable().contains("0123456789abcdef"), "{}", node.everything_readable());
    assert!(node.current("kubelet.json")["maxPods"].is_null());

    let missing = unique("config");
    node.assign_name(&missing, &hash(&first));
    let waiting = node.wait_reported("the NodeConfig is missing", |status| status.message.contains("does not exist"));
    assert_eq!(waiting.phase, Phase::Idle);
    node.store(&missing, &first.to_string());
    node.wait_phase(Phase::Current);
    assert_eq!(node.current("kubelet.json")["maxPods"], 10);
}

#[test]
fn drain_is_requested_and_the_document_applied_when_the_cluster_allows_it() {
    let node = Followed::new("allow", 3);
    let mut next = node.document(6);
    next["spec"]["kubelet"]["configuration"]["topologyManagerPolicy"] = json!("best-effort");
    // The document would let the node do it by itself.
    next["spec"]["update"]["upTo"] = json!("drain");
    let digest = node.assign(&next);
    let pending = node.wait_phase(Phase::Pending);
    assert_eq!((pending.effect, pending.requests.action), (Some(Effect::Drain), Some(RequestedAction::Drain)));
    assert_eq!(pending.requests.digest, digest);
    node.set(&json!({"allow": "cd".repeat(32)}));
    node.wait_phase(Phase::Pending);
    assert!(node.current("kubelet.json")["topologyManagerPolicy"].is_null(), "another document is allowed");
    node.set(&json!({"allow": digest}));
    let done = node.wait_phase(Phase::Current);
    assert!(done.requests.is_empty() && done.effect.is_none(), "{done:?}");
    assert_eq!(node.current("kubelet.json")["topologyManagerPolicy"], "best-effort");

    // A document that asks to wait.
    let mut paused = next.clone();
    paused["metadata"]["generation"] = json!(7);
    paused["spec"]["kubelet"]["configuration"]["maxPods"] = json!(44);
    paused["spec"]["update"]["paused"] = json!(true);
    let digest = node.assign(&paused);
    assert_eq!(node.wait_phase(Phase::Pending).requests.action, Some(RequestedAction::Apply));
    node.set(&json!({"allow": digest}));
    node.wait_phase(Phase::Current);

    // A document for another node.
    let mut replace = node.document(8);
    replace["spec"]["runtime"] = json!({"configuration": {"root": "/data"}});
    let digest = node.assign(&replace);
    assert_eq!(node.wait_phase(Phase::Pending).requests.action, Some(RequestedAction::Replace));
    node.set(&json!({"allow": digest}));
    node.wait_phase(Phase::Pending);
    assert_eq!(node.current("kubelet.json")["maxPods"], 44, "never allowed");
}

#[test]
fn document_that_needs_a_reboot_is_pending_until_the_machine_has_rebooted() {
    let mut node = Followed::idle_in_fleet("reboots", 4);
    node.set_user_data(&node.document(5));
    node.restart("boot-1");
    node.create();
    node.wait_committed(5);
    let mut next = node.document(6);
    next["spec"]["os"] = json!({"kernelArguments": ["quiet"]});
    let digest = node.assign(&next);
    let pending = node.wait_phase(Phase::Pending);
    assert_eq!((pending.effect, pending.requests.action), (Some(Effect::Reboot), Some(RequestedAction::Reboot)));
    assert_eq!((pending.current.map(|current| current.generation), pending.boot_id.as_str()), (Some(5), "boot-1"));
    node.set(&json!({"allow": digest}));
    let pending = node.wait_reported("the document is in force", |status| {
        status.phase == Phase::Pending && status.current.as_ref().is_some_and(|current| current.digest == digest)
    });
    assert_eq!((pending.requests.action, pending.requests.digest), (Some(RequestedAction::Reboot), digest));

    node.set(&json!({"reboot": "boot-0"}));
    node.wait_phase(Phase::Pending);
    assert!(!node.journal().contains("rebooting"), "another boot was named");
    // There is no systemd below `--root`, so only the attempt is visible.
    node.set(&json!({"reboot": "boot-1"}));
    node.wait("kilnd reboots", |node| node.journal().contains("rebooting: the cluster requested it"));
    node.restart("boot-2");
    let done = node.wait_phase(Phase::Current);
    assert_eq!((done.boot_id.as_str(), done.requests.is_empty()), ("boot-2", true));
    assert!(!node.journal().contains("rebooting"), "{}", node.journal());
}

#[test]
fn user_data_is_ignored_while_a_document_is_assigned_also_without_an_api_server() {
    let mut node = Followed::idle_in_fleet("authority", 5);
    let relay = node.relay();
    node.apply(&node.document(5));
    node.create();
    node.watch();
    node.wait_committed(5);
    // A lower generation is accepted from a NodeState.
    let digest = node.assign(&node.pods(2, 20));
    node.wait_phase(Phase::Current);
    assert_eq!(node.current("config.json")["metadata"]["generation"], 2);

    let ignored = |node: &Followed| {
        node.hangup();
        node.wait("kilnd polls", |node| node.journal().contains("SIGHUP received"));
        // Several polls later.
        thread::sleep(Duration::from_secs(2));
        assert_eq!(node.current("kubelet.json")["maxPods"], 20, "{}", node.journal());
    };
    node.set_user_data(&node.pods(9, 90));
    ignored(&node);
    relay.set_open(false);
    node.stop();
    node.watch();
    node.wait("kilnd runs", |node| node.journal().contains("cannot update the Node object"));
    ignored(&node);
    assert!(node.status().contains("user data is ignored"), "{}", node.status());
    relay.set_open(true);
    node.wait("the watch resumes", |node| node.journal().contains("following the NodeState"));
    assert_eq!(node.wait_phase(Phase::Current).current.map(|current| current.digest), Some(digest));

    node.set(&json!({"desired": null}));
    node.wait_committed(9);
    assert_eq!(node.wait_phase(Phase::Idle).current.map(|current| current.generation), Some(9));
    assert_eq!(node.current("kubelet.json")["maxPods"], 90);
}

fn signed(document: &Value) -> Value {
    let mut document = NodeConfig::parse(document.to_string().as_bytes()).expect("a document");
    document.signature = Some(Signature {
        key_id: "fleet".to_owned(),
        algorithm: "ed25519".to_owned(),
        issued: "2026-01-01T00:00:00Z".to_owned(),
        ..Signature::default()
    });
    let value = SigningKey::from_pem(KEY).expect("a key").sign(&document.signed_bytes());
    document.signature.as_mut().expect("signed").value = BASE64_STANDARD.encode(value);
    serde_json::from_str(&document.to_json()).expect("json")
}

#[test]
fn image_with_keys_accepts_only_signed_documents_and_no_older_ones() {
    let mut node = Followed::idle_in_fleet("signed", 6);
    node.write("etc/kiln/keys.d/fleet.pub", &SigningKey::from_pem(KEY).expect("a key").public_pem());
    node.apply(&signed(&node.document(5)));
    node.create();
    node.watch();
    node.wait_committed(5);
    node.assign(&node.pods(6, 60));
    let unsigned = node.wait_phase(Phase::Reverted);
    assert!(unsigned.message.contains("signature"), "{}", unsigned.message);
    node.assign(&signed(&node.pods(4, 40)));
    let older =
        node.wait_reported("the older one is refused", |status| status.message.contains("older than the signed"));
    assert_eq!(older.phase, Phase::Reverted);
    assert!(node.current("kubelet.json")["maxPods"].is_null());
    node.assign(&signed(&node.pods(7, 70)));
    node.wait_phase(Phase::Current);
    assert_eq!(node.current("kubelet.json")["maxPods"], 70);
}

#[test]
fn killed_api_server_reverts_nothing_and_the_watch_resumes() {
    let plane = own_plane();
    install(plane);
    let mut node = Followed::idle(plane, "killed", 7);
    node.apply(&node.document(5));
    node.create();
    node.watch();
    node.wait_committed(5);
    node.assign(&node.pods(6, 60));
    node.wait_phase(Phase::Current);

    plane.kill(Component::ApiServer).expect("killed");
    node.wait("the outage is noticed", |node| node.journal().contains("cannot watch the NodeState"));
    plane.restart_api_server().expect("restarted");
    node.assign(&node.pods(7, 70));
    node.wait_phase(Phase::Current);

    // During a trial, which does not end without heartbeats.
    node.set_kubelet_heartbeats(false);
    node.assign(&with_limit(node.pods(8, 80)));
    node.wait_phase(Phase::OnTrial);
    plane.kill(Component::ApiServer).expect("killed");
    thread::sleep(Duration::from_secs(5));
    plane.restart_api_server().expect("restarted");
    node.set_kubelet_heartbeats(true);
    let done = node.wait_phase(Phase::Current);
    assert_eq!((done.current.map(|current| current.generation), done.reverted), (Some(8), None));
    assert!(!node.journal().contains("reverted"), "{}", node.journal());
}

#[test]
fn kilnd_ends_at_once_while_a_watch_is_open() {
    let mut node = Followed::new("ends", 8);
    node.wait_phase(Phase::Idle);
    for _ in 0..2 {
        node.wait("the watch is open", |node| node.journal().contains("following the NodeState"));
        assert!(node.stop_within(NOT_HUNG), "{}", node.journal());
        node.watch();
    }
    node.assign(&node.pods(6, 60));
    node.wait_phase(Phase::Current);
}

#[test]
fn cluster_without_the_custom_resources_is_quiet_and_is_followed_once_it_has_them() {
    let plane = own_plane();
    let mut node = Followed::idle(plane, "plain", 9);
    node.apply(&node.document(5));
    node.watch();
    node.wait_committed(5);
    node.set_user_data(&node.pods(6, 60));
    node.wait_committed(6);
    node.wait("kilnd noticed it", |node| node.journal().contains("no NodeState for this node"));
    // Two attempts later.
    thread::sleep(Duration::from_secs(8));
    let journal = node.journal();
    assert_eq!(journal.matches("NodeState").count(), 1, "{journal}");
    assert!(!node.status().contains("NodeState"), "{}", node.status());

    install(plane);
    node.create();
    node.wait_phase(Phase::Idle);
    node.assign(&node.pods(3, 30));
    node.wait_phase(Phase::Current);
    assert_eq!(node.current("kubelet.json")["maxPods"], 30);
}

#[test]
fn labels_and_taints_are_requested_until_the_node_has_them() {
    let node = Followed::new("labels", 10);
    let mut next = node.document(6);
    next["spec"]["kubelet"]["labels"] = json!({"node-role.kubernetes.io/gpu": "", "example.com/own": "a"});
    next["spec"]["kubelet"]["taints"] = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    node.assign(&next);
    let role = "node-role.kubernetes.io/gpu";
    let status = node.wait_reported("the requests are reported", |status| {
        status.requests.labels.contains_key(role) && !status.requests.taints.is_empty()
    });
    assert_eq!(status.requests.labels.len(), 1, "{:?}", status.requests);
    assert_eq!(status.requests.taints.get("gpu:NoSchedule"), Some(&Some("yes".to_owned())));
    node.kubectl(&["taint", "node", &node.name, "gpu=yes:NoSchedule"]);
    node.kubectl(&["label", "node", &node.name, &format!("{role}=")]);
    let done = node.wait_reported("the requests are fulfilled", |status| status.requests.is_empty());
    assert_eq!(done.reverted, None);
    node.wait_phase(Phase::Current);
    // A label that has to be removed is null, which only a replaced status can contain.
    node.assign(&node.document(7));
    node.wait_reported("the removal is requested", |status| status.requests.labels.get(role) == Some(&None));
}

#[test]
fn node_that_may_read_only_its_own_node_state_follows_it() {
    let plane = own_plane();
    install_with(plane, false);
    let mut node = Followed::idle(plane, "limited", 11);
    node.apply(&node.document(5));
    node.create();
    node.watch();
    node.wait_committed(5);
    node.wait("kilnd is refused", |node| node.journal().contains("no NodeState for this node"));
    assert_eq!(node.object(), None);

    let operator = Operator::start(plane);
    node.wait_phase(Phase::Idle);
    let digest = node.assign(&node.pods(6, 60));
    let done = node.wait_phase(Phase::Current);
    assert_eq!(done.current.map(|current| current.digest), Some(digest));
    assert_eq!(node.current("kubelet.json")["maxPods"], 60);
    let other = plane.run_kubectl(&[
        "auth",
        "can-i",
        "list",
        "nodestates",
        "--as",
        "system:node:other",
        "--as-group",
        "system:nodes",
    ]);
    assert!(other.is_err(), "{other:?}");
    operator.stop();
}
