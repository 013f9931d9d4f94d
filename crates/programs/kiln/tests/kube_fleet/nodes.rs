//! `kiln node status`, `diff` and `rollback`.

use serde_json::{Value, json};

use crate::world::{World, assert_fails};

/// A NodeState of a node of the pool on which this NodeConfig is in force.
fn state(world: &World, number: usize, config: &str) -> String {
    let (node, digest) = (world.node(number), digest(world, config));
    world.apply(&json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState", "metadata": {"name": node},
        "spec": {"desired": {"nodeConfig": config, "digest": digest, "rollout": config, "wave": 1, "since": "2026-08-01T10:00:00Z"}, "allow": digest},
    }));
    let current = json!({"digest": digest, "generation": 1, "source": "nodeState", "committed": true});
    world.set_status("nodestate", &node, &json!({"phase": "Current", "current": current}));
    node
}

fn digest(world: &World, config: &str) -> Value {
    world.get("rollout", config)["spec"]["target"]["digest"].clone()
}

fn end(world: &World, rollout: &str) {
    let status =
        json!({"phase": "Complete", "plan": {}, "waves": [], "total": 1, "updated": 1, "failed": 0, "inFlight": []});
    world.set_status("rollout", rollout, &status);
}

#[test]
fn status_lists_the_nodes_of_a_pool_also_those_without_a_state() {
    let world = World::new(2);
    let config = world.rollout(10);
    let node = state(&world, 0, &config);
    let rows = world.json(&["node", "status", "--pool", &world.pool]);
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    let expected = json!({
        "node": node, "phase": "Current", "digest": digest(&world, &config), "committed": true, "desired": digest(&world, &config),
        "effect": "", "rollout": config, "message": "",
    });
    assert_eq!(rows[0], expected);
    assert!(rows[1]["message"].as_str().unwrap().contains("no NodeState"), "{rows}");
    let text = world.kiln(&["node", "status"]).success().stdout;
    assert!(text.contains(&node) && !text.contains(&world.node(1)), "{text}");
    assert_fails(&world.kiln(&["node", "status", "--pool", "typo"]), 2, &["Pool `typo` does not exist"]);
}

#[test]
fn diff_names_fields_and_effects_between_the_node_and_a_file() {
    let world = World::new(1);
    let config = world.rollout(10);
    let node = state(&world, 0, &config);
    let printed = world.json(&["node", "diff", "--node", &node, "-f", &world.document(20)]);
    assert_eq!((&printed["effect"], &printed["current"]), (&json!("reload"), &json!(config)));
    assert_eq!(
        printed["changes"],
        json!([{"path": "spec.os.sysctl[vm.swappiness]", "from": "10", "to": "20", "effect": "reload"}])
    );
    let text = world.kiln(&["node", "diff", "--node", &node, "-f", &world.document(10)]).success().stdout;
    assert!(text.contains("no differences"), "{text}");
    world.set_status("nodestate", &node, &json!({"current": {"digest": "0000", "source": "imds", "committed": true}}));
    let unknown = world.kiln(&["node", "diff", "--node", &node, "-f", &world.document(20)]);
    assert_fails(&unknown, 1, &["is not in the cluster; it came from imds", "hint:"]);
    assert_fails(
        &world.kiln(&["node", "diff", "--node", "typo", "-f", &world.document(20)]),
        2,
        &["NodeState `typo` does not exist"],
    );
}

#[test]
fn rollback_assigns_the_last_complete_target_while_no_rollout_is_open() {
    let world = World::new(1);
    let (old, new) = (world.rollout(10), world.rollout(20));
    let node = state(&world, 0, &new);
    end(&world, &old);
    let roll_back = ["node", "rollback", "--node", &node];
    assert_fails(&world.kiln(&roll_back), 1, &["has an open rollout", &format!("kiln rollout abort {new}")]);
    end(&world, &new);
    assert_fails(&world.kiln(&roll_back), 1, &["has no complete target"]);
    let target = json!({"nodeConfig": old, "digest": digest(&world, &old)});
    world.set_status("pool", &world.pool, &json!({"nodes": 1, "upToDate": 0, "unavailable": 0, "target": target}));
    world.ok(&roll_back);
    let spec = world.get("nodestate", &node)["spec"].clone();
    let since = spec["desired"]["since"].clone();
    assert_ne!(since, "2026-08-01T10:00:00Z");
    assert_eq!(spec, json!({"desired": {"nodeConfig": old, "digest": digest(&world, &old), "since": since}}));
}

#[test]
fn rollback_that_needs_a_drain_is_left_to_a_rollout() {
    let world = World::new(1);
    let version = |version: &str| {
        let file = world.write(&format!("{version}.yaml"), &world.text(version, 10));
        let created = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool]);
        let name = created["rollout"].as_str().unwrap().to_owned();
        end(&world, &name);
        name
    };
    let (old, new) = (version("1.33.1"), version("1.33.2"));
    let node = state(&world, 0, &new);
    let target = json!({"nodeConfig": old, "digest": digest(&world, &old)});
    world.set_status("pool", &world.pool, &json!({"nodes": 1, "upToDate": 0, "unavailable": 0, "target": target}));
    let refused = world.kiln(&["node", "rollback", "--node", &node]);
    assert_fails(&refused, 1, &["needs `drain`, which only a rollout does", "hint:"]);
    assert_eq!(world.get("nodestate", &node)["spec"]["desired"]["nodeConfig"], new);
}
