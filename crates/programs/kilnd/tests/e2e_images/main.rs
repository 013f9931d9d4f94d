//! kilnd on machines that look like the images people have. Each kind of image is a row of [`Kind::ALL`], and each test runs on every kind:
//! real systemd, containerd and kubelet, and one real API server for all machines.

mod agents;
#[path = "../booted/mod.rs"]
mod booted;
mod budgets;
mod cluster;
mod drop_ins;
mod guide;
mod kinds;
mod labels;
mod node;
mod removal;
#[path = "../tree/mod.rs"]
mod tree;
mod units;

use kinds::Kind;
use node::Node;
use serde_json::json;

/// Runs a test on every kind of image, at the same time.
macro_rules! on_every_kind {
    ($($test:ident),+ $(,)?) => {
        mod ubuntu_like { on_every_kind!(@ Ubuntu: $($test),+); }
        mod kubeadm_like { on_every_kind!(@ Kubeadm: $($test),+); }
        mod aks_like { on_every_kind!(@ Aks: $($test),+); }
        mod azure_linux_like { on_every_kind!(@ AzureLinux: $($test),+); }
    };
    (@ $kind:ident: $($test:ident),+) => {
        $(#[test] fn $test() { super::$test(super::Kind::$kind); })+
    };
}

on_every_kind! {
    first_boot_from_the_metadata_service_joins,
    node_from_media_joins_reboots_changes_and_its_clones_join,
}

/// No provisioning media: the document is user data, and the join credential is a file of the image.
fn first_boot_from_the_metadata_service_joins(kind: Kind) {
    let node = Node::new(kind, "imds");
    let document = node.document(1).with("/spec/credentialFrom", json!({"kind": "file", "name": node::TOKEN_FILE}));
    node.cloud.set_user_data(&document);
    let node = node.boot();
    node.assert_joined(1);
    assert!(node.cloud.user_data_requests() > 0);
    node.assert_kiln_wins();
}

/// One machine and its descendants, because each boot costs seconds.
fn node_from_media_joins_reboots_changes_and_its_clones_join(kind: Kind) {
    let node = Node::new(kind, "media");
    node.attach_media(&node.document(1));
    let mut node = node.boot();
    node.assert_joined(1);
    node.assert_kiln_wins();
    node.assert_image_is_whole();
    guide::assert_section_is_true(&node);
    labels::assert_right(&node, "after the first boot");
    let registered = node.object();

    node.machine.detach("cd");
    let before = node.heartbeat();
    node.machine.reboot();
    node.wait_for_heartbeat_after(&before);
    assert_eq!(node.committed(), Some(1), "after the second boot");
    labels::assert_right(&node, "after the second boot");

    node.cloud.set_user_data(&node.document(2).with("/spec/kubelet/configuration/maxPods", json!(37)));
    node.wait_committed(2);
    node.wait_until_object("the node has room for 37 pods", |object| object["status"]["capacity"]["pods"] == "37");
    labels::assert_right(&node, "after a change");

    let bad = node.document(3).with("/spec/kubelet/flags", json!({"--cgroup-root": "/nowhere"}));
    node.cloud.set_user_data(&bad.with("/spec/health/withinSeconds", json!(40)));
    node.wait_reverted(3);
    assert_eq!(node.committed(), Some(2), "after the bad change");
    node.wait_until_object("the node is ready again", node::is_ready);
    assert_eq!(node.object()["metadata"]["uid"], registered["metadata"]["uid"], "the Node object is the same");
    labels::assert_right(&node, "after a revert");
    node.machine.power_off();

    let clone = node.clone_as("clone");
    clone.attach_media(&clone.document(1));
    let mut clone = clone.boot();
    clone.assert_joined(1);
    labels::assert_right(&clone, "after the first boot of a clone");
    clone.machine.power_off();
    let grandchild = clone.clone_as("grandchild");
    grandchild.attach_media(&grandchild.document(1).with("/spec/files", removal::files()));
    let grandchild = grandchild.boot();
    grandchild.assert_joined(1);
    grandchild.assert_kiln_wins();
    let nodes = [&node, &clone, &grandchild];
    let mut ids: Vec<_> = nodes.iter().map(|node| node.object()["metadata"]["uid"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), nodes.len(), "each machine has its own Node object");
    labels::assert_right(&grandchild, "after the first boot of a clone's clone");
    removal::assert_node_is_as_before_kilnd(&grandchild);
    labels::assert_right(&grandchild, "after the removal");
}
