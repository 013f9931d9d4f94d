//! A cluster without the kinds, and people without permissions.

use serde_json::json;

use crate::world::{World, assert_fails, kiln, start, text};

#[test]
fn cluster_without_the_kinds_is_not_reported_as_a_missing_object() {
    let plane = start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, text("web", "1.33.7", 10)).expect("written");
    let file = file.display().to_string();
    for arguments in [
        ["rollout", "list"].as_slice(),
        &["rollout", "status", "web"],
        &["rollout", "create", "-f", &file, "--pool", "web"],
        &["rollout", "pause", "web"],
        &["freeze", "on", "--reason", "r"],
        &["freeze", "off", "f"],
        &["node", "status"],
        &["node", "diff", "--node", "n", "-f", &file],
    ] {
        let failed = kiln(plane.kubeconfig(), arguments);
        assert_fails(&failed, 1, &["does not have the kinds of the fleet", "hint: install the chart"]);
    }
}

#[test]
fn missing_permission_is_named_with_a_hint() {
    let world = World::new(1);
    let name = world.rollout(10);
    let viewer =
        world.user(&json!([{"apiGroups": ["node.kiln.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]));
    viewer.ok(&["rollout", "status", &name]);
    assert_fails(
        &viewer.kiln(&["rollout", "pause", &name]),
        1,
        &["change Rollout", "403", "hint: docs/guides/fleet.md"],
    );
    assert_fails(&viewer.kiln(&["freeze", "on", "--reason", "r"]), 1, &["create Freeze", "403", "hint:"]);
    let create = ["rollout", "create", "-f", &world.document(20), "--pool", &world.pool];
    assert_fails(&viewer.kiln(&create), 1, &["create NodeConfig", "403", "hint:"]);
    let nobody = world.user(&json!([]));
    assert_fails(&nobody.kiln(&["rollout", "list"]), 1, &["list rollouts: 403", "hint:"]);
}
