//! A real kubelet on a machine with a real systemd follows its NodeState, and the machine reboots when the cluster asks for it.

mod booted;
mod support;

use std::cell::RefCell;

use booted::ONE;
use booted::cloud::Cloud;
use booted::cluster::{Cluster, real};
use booted::document::Document;
use booted::stage::{Stage, pods};
use serde_json::{Value, json};
use testkit::nspawn::Machine;

/// A node that has joined, with generation 1 committed and an empty NodeState.
fn followed(name: &str) -> (Machine, Cloud, Cluster) {
    let mut machine = real(name).build();
    let (cloud, cluster) = (Cloud::start(&machine), Cluster::start(&machine));
    cluster.with_plane(support::fleet::install);
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", cluster.ovf_env());
    cluster.apply(object("NodeState", "node-1", &json!({})));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    (machine, cloud, cluster)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Stores a document, and returns the part of a NodeState's spec that assigns it.
fn assignment(cluster: &Cluster, name: &str, document: &Document) -> Value {
    let text = String::from_utf8(document.bytes()).expect("text");
    let digest = kiln_node_config::NodeConfig::parse(text.as_bytes()).expect("a document").hash();
    cluster.apply(object("NodeConfig", name, &json!({"document": text})));
    json!({"nodeConfig": name, "digest": digest, "since": "2026-11-18T00:00:00Z"})
}

/// Waits for a status that answers the current spec.
#[track_caller]
fn wait_status(machine: &Machine, cluster: &Cluster, what: &str, is_true: impl Fn(&Value) -> bool) -> Value {
    let last = RefCell::new(Value::Null);
    machine.wait_until(what, |_| {
        let state = cluster.get(&["nodestate", "node-1"])?;
        if last.replace(state["status"].clone()) != state["status"] {
            eprintln!("{what}: generation {}: {}", state["metadata"]["generation"], state["status"]);
        }
        let is_current = state["status"]["observedGeneration"] == state["metadata"]["generation"];
        (is_current && is_true(&state["status"])).then(|| state["status"].clone())
    })
}

#[test]
fn node_follows_its_node_state_restarts_its_watch_and_reboots_once_on_request() {
    let (mut machine, cloud, cluster) = followed("follows");
    let idle = wait_status(&machine, &cluster, "the node reports", |status| status["phase"] == "Idle");
    assert_eq!(idle["current"]["generation"], 1, "{idle}");
    assert!(idle["boot"]["kernel"].is_string(), "{idle}");

    let more = cluster.document(2).with("/spec/kubelet/configuration/maxPods", json!(37));
    let desired = assignment(&cluster, "more-pods", &more);
    cluster.apply(object("NodeState", "node-1", &json!({"desired": desired})));
    wait_status(&machine, &cluster, "the document is current", |status| status["phase"] == "Current");
    assert_eq!(pods(&machine), Some(37));
    machine.wait_until("the kubelet reports it", |_| {
        (cluster.node()?["status"]["capacity"]["pods"] == "37").then_some(())
    });
    cloud.set_user_data(&cluster.document(9));

    // A watch is open. The limit is far below the time after which systemd kills a unit, and above what a busy machine needs.
    machine.shell("timeout 30 systemctl restart kiln-watch.service");
    let journal = machine.journal(Some("kiln-watch"));
    assert!(!journal.contains("timed out") && !journal.contains("SIGKILL"), "{journal}");

    let before = wait_status(&machine, &cluster, "the boot is reported", |status| status["bootId"].is_string());
    cluster.apply(object("NodeState", "node-1", &json!({"desired": desired, "reboot": before["bootId"]})));
    machine.wait_rebooted();
    let after = wait_status(&machine, &cluster, "the node has rebooted", |status| {
        status["phase"] == "Current"
            && status["bootId"] != before["bootId"]
            && status["boot"]["kubeletStart"].is_string()
    });
    assert_eq!(after["bootId"].as_str(), Some(machine.shell("cat /proc/sys/kernel/random/boot_id").stdout.trim()));
    assert!(after["boot"]["kubeletStart"].as_str() > before["boot"]["kubeletStart"].as_str(), "{before} {after}");
    assert_eq!((after["current"]["generation"].clone(), pods(&machine)), (json!(2), Some(37)), "{after}");
    assert!(after["boot"]["kernel"].as_str() > before["boot"]["kernel"].as_str(), "{before} {after}");
    machine.wait_until("the node is ready", |_| cluster.is_ready().then_some(()));
    machine.shell("systemctl restart kiln-watch.service");
    machine.wait_until("kilnd follows again", |machine| {
        (machine.journal(Some("kiln-watch")).matches("following the NodeState").count() >= 2).then_some(())
    });
    let started = machine.property("kubelet.service", "ActiveEnterTimestamp");
    machine.settled();
    assert_eq!(machine.property("kubelet.service", "ActiveEnterTimestamp"), started, "one reboot");
    assert!(!machine.journal(Some("kiln-watch")).contains("rebooting"), "one reboot");
    assert_eq!(Stage::committed(&machine), Some(2), "user data is ignored");
}
