//! `refresh`.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::golden::assert_golden;
use crate::world::{SMALL, World, node};

#[test]
fn nodes_of_old_images_are_replaced_and_the_pool_keeps_its_size() {
    let world = World::instant(SMALL);
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    assert_golden("refresh-dry.txt", &world.exits_with(0, &["refresh", "--dry-run"]).stdout);
    let refresh = world.exits_with(0, &["refresh", "--surge", "1", "--max-unavailable", "1"]);
    assert_golden("refresh.txt", &refresh.stdout);
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    assert_eq!(
        status["pools"][0]["runs"],
        json!([{"image": "2026.11.16", "instances": 3, "rejected": false}]),
        "{status}"
    );
    world.wait_until("three nodes are left", || world.nodes().len() == 3);
    assert!(world.nodes().iter().all(crate::world::is_ready));
    let again = world.exits_with(0, &["refresh"]);
    assert!(again.stdout.contains("every node runs 2026.11.16"), "{again}");
}

#[test]
fn disruption_budget_stops_the_refresh_and_the_cordon_is_released() {
    let world = World::instant(SMALL);
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    let guarded = node(1);
    world.create::<Pod>(&json!({
        "metadata": {"name": "guarded", "labels": {"app": "guarded"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "guarded", "uid": "5e1f", "controller": true},
        ]},
        "spec": {"nodeName": guarded, "containers": [{"name": "main", "image": "pause:3.9"}]},
    }));
    world.create::<PodDisruptionBudget>(&json!({
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }));
    // A pod that is not running yet may be evicted regardless of the budget.
    world.wait_until("the budget counts the pod", || {
        let budget: PodDisruptionBudget = world.get("guarded");
        budget.status.is_some_and(|status| status.current_healthy == 1)
    });
    let stopped = world.exits_with(1, &["refresh", "--surge", "0", "--max-unavailable", "3", "--grace-period", "1"]);
    assert!(stopped.stderr.contains("guarded") && stopped.stderr.contains("budget"), "{stopped}");
    world.assert_not_held(&guarded);
    let all = world.exits_with(0, &["refresh", "--all-at-once"]);
    assert!(all.stdout.contains("replaced"), "{all}");
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    assert_eq!(
        status["pools"][0]["runs"],
        json!([{"image": "2026.11.16", "instances": 3, "rejected": false}]),
        "{status}"
    );
}

#[test]
fn killed_refresh_continues_to_the_original_size() {
    let world = World::instant(SMALL);
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    let first = world.spawn(&["refresh"]);
    let is_new =
        |node: &k8s_openapi::api::core::v1::Node| node.metadata.name.as_deref() == Some(crate::world::node(3).as_str());
    world.wait_until("one more node exists", || world.nodes().iter().any(is_new));
    first.kill();
    let again = world.exits_with(0, &["refresh"]);
    assert!(again.stderr.contains("continuing a refresh to 3 nodes"), "{again}");
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    assert_eq!(
        status["pools"][0]["runs"],
        json!([{"image": "2026.11.16", "instances": 3, "rejected": false}]),
        "{status}"
    );
    world.wait_until("three nodes are left", || world.nodes().len() == 3);
    world.nodes().iter().for_each(|node| world.assert_not_held(node.metadata.name.as_deref().expect("a name")));
}
