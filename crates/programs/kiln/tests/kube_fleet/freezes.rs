//! `kiln freeze`.

use control_plane::unique;
use serde_json::{Value, json};

use crate::world::{World, assert_fails};

fn row(world: &World, name: &str) -> Option<Value> {
    let rows = world.json(&["freeze", "list"]);
    rows.as_array().unwrap().iter().find(|row| row["name"] == name).cloned()
}

#[test]
fn freeze_is_created_listed_and_removed() {
    let world = World::new(1);
    let rollout = world.rollout(10);
    world.set_status("rollout", &rollout, &json!({"phase": "Progressing", "plan": {}, "waves": [], "total": 1, "updated": 0, "failed": 0, "inFlight": [world.node(0)]}));
    let on = ["freeze", "on", "--reason", "incident 4711", "--pool", &world.pool, "--for", "2h"];
    let created = world.json(&on);
    let name = created["freeze"].as_str().unwrap();
    assert!(name.starts_with("freeze-") && created["nodesInFlight"] == 1, "{created}");
    let spec = world.get("freeze", name)["spec"].clone();
    assert_eq!((&spec["reason"], &spec["pools"]), (&json!("incident 4711"), &json!([world.pool])));
    let until: jiff::Timestamp = spec["until"].as_str().unwrap().parse().expect("a time");
    let row_of = row(&world, name).expect("listed");
    assert_eq!((&row_of["active"], &row_of["until"]), (&json!(true), &json!(until.to_string())));
    assert!(row_of["owner"].as_str().unwrap().starts_with("alice"), "{row_of}");
    let text = world.kiln(&["freeze", "list"]).success().stdout;
    assert!(text.contains("incident 4711"), "{text}");
    world.set_status("freeze", name, &json!({"affected": [rollout]}));
    assert_eq!(row(&world, name).expect("listed")["affected"], json!([rollout]));
    let off = world.json(&["freeze", "off", name]);
    assert_eq!(off["removed"], json!([name]));
    assert_eq!(row(&world, name), None);
    assert_fails(&world.kiln(&["freeze", "off", name]), 2, &["does not exist", "kiln freeze list"]);
}

#[test]
fn name_that_exists_a_pool_that_does_not_and_an_empty_reason_are_refused() {
    let world = World::new(1);
    let name = unique("mine");
    let on = ["freeze", "on", "--reason", "r", "--pool", &world.pool, "--name", &name];
    world.ok(&on);
    assert_fails(&world.kiln(&on), 1, &["already exists", "hint: choose another `--name`"]);
    assert_fails(&world.kiln(&["freeze", "on", "--reason", "r", "--pool", "typo"]), 2, &["Pool `typo` does not exist"]);
    assert_fails(&world.kiln(&["freeze", "on", "--reason", " "]), 2, &["must not be empty"]);
    world.ok(&["freeze", "off", &name]);
}

#[test]
fn person_with_the_freezers_role_can_freeze_and_nothing_else() {
    let world = World::new(1);
    let rules = json!([{"apiGroups": ["node.kiln.dev"], "resources": ["freezes"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]}]);
    let freezer = world.user(&rules);
    let on = ["freeze", "on", "--reason", "incident", "--pool", &world.pool, "--output", "json"];
    let created = freezer.kiln(&on).success();
    assert!(created.stderr.contains("cannot check whether pool"), "{created}");
    freezer.ok(&["freeze", "off", created.json()["freeze"].as_str().unwrap()]);
    assert_fails(&freezer.kiln(&["rollout", "list"]), 1, &["list rollouts: 403", "hint: docs/guides/fleet.md"]);
}
