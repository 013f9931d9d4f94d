//! Commands that change a rollout, and those that list rollouts.

use serde_json::json;

use crate::world::{World, assert_fails};

fn waves() -> serde_json::Value {
    json!([
        {"size": 1, "done": 1, "failed": 0, "verdict": "Passed"},
        {"size": 3, "done": 0, "failed": 0, "verdict": "Waiting"},
        {"size": 9, "done": 0, "failed": 0, "verdict": "Waiting"},
    ])
}

#[test]
fn pause_resume_and_abort_set_the_spec_and_name_who_did_it() {
    let world = World::new(1);
    let name = world.rollout(10);
    let said = world.kiln(&["rollout", "pause", &name]).success().stdout;
    assert!(said.contains(&format!("{name} is paused; no node is in flight")), "{said}");
    let rollout = world.get("rollout", &name);
    assert_eq!(rollout["spec"]["paused"], true);
    let by = rollout["metadata"]["annotations"]["node.kiln.dev/changed-by"].as_str().unwrap();
    assert!(by.starts_with("alice") && by.contains(", pause, "), "{by}");
    let said = world.kiln(&["rollout", "pause", &name]).success().stdout;
    assert!(said.contains("was already paused"), "{said}");
    assert_eq!(world.json(&["rollout", "resume", &name])["changed"], true);
    assert_ne!(world.get("rollout", &name)["spec"]["paused"], true);
    assert_eq!(world.json(&["rollout", "resume", &name])["changed"], false);
    world.ok(&["rollout", "abort", &name]);
    assert_eq!(world.get("rollout", &name)["spec"]["aborted"], true);
}

#[test]
fn approval_is_for_the_next_wave_and_can_expire() {
    let world = World::new(1);
    let name = world.rollout(10);
    assert_fails(&world.kiln(&["rollout", "approve", &name]), 1, &["has no waves yet"]);
    let status = json!({
        "observedGeneration": 1, "phase": "Progressing", "waves": waves(), "plan": {}, "total": 13, "updated": 1, "failed": 0, "inFlight": [],
        "waitingFor": {"reason": "Approval", "message": "wave 2 needs an approval"},
    });
    world.set_status("rollout", &name, &status);
    let said = world.kiln(&["rollout", "approve", &name, "--for", "2h"]).success().stdout;
    assert!(said.contains("waves up to 2 of 3 may start, if it starts before 20"), "{said}");
    let spec = world.get("rollout", &name)["spec"].clone();
    assert_eq!(spec["approvedWave"], 2);
    assert!(spec["approvedUntil"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{spec}");
    world.ok(&["rollout", "approve", &name, "--wave", "3"]);
    let spec = world.get("rollout", &name)["spec"].clone();
    assert_eq!((&spec["approvedWave"], &spec["approvedUntil"]), (&json!(3), &json!(null)), "{spec}");
    assert_fails(&world.kiln(&["rollout", "approve", &name, "--wave", "4"]), 2, &["has 3 waves"]);
}

#[test]
fn undo_aborts_an_open_rollout_and_returns_each_pool_to_its_previous_target() {
    let (world, other) = (World::new(1), World::new(1));
    let old = world.rollout(10);
    let digest = world.get("rollout", &old)["spec"]["target"]["digest"].clone();
    let file = world.document(20);
    let created = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--pool", &other.pool]);
    let name = created["rollout"].as_str().unwrap();
    assert_fails(&world.kiln(&["rollout", "undo", name]), 1, &["has nothing to return to", "not started it"]);
    let status = json!({
        "observedGeneration": 1, "phase": "Progressing", "plan": {}, "waves": waves(), "total": 13, "updated": 1, "failed": 0, "inFlight": [],
        "previous": {&world.pool: {"nodeConfig": old, "digest": digest}},
    });
    world.set_status("rollout", name, &status);
    let planned = world.json(&["rollout", "undo", name, "--dry-run"]);
    assert_eq!((&planned["aborted"], &planned["withoutPrevious"]), (&json!(true), &json!([other.pool])), "{planned}");
    assert_ne!(world.get("rollout", name)["spec"]["aborted"], true, "a dry run changes nothing");
    let undone = world.json(&["rollout", "undo", name]);
    assert_eq!(world.get("rollout", name)["spec"]["aborted"], true);
    let back = undone["created"][0]["name"].as_str().unwrap();
    assert_eq!(back, format!("{name}-undo"));
    assert_eq!(
        world.get("rollout", back)["spec"],
        json!({"pools": [world.pool], "target": {"nodeConfig": old, "digest": digest}, "onFailure": "Halt", "replacement": "WhenNeeded"})
    );
    world.set_status("rollout", name, &json!({"phase": "RolledBack"}));
    assert_fails(&world.kiln(&["rollout", "undo", name]), 1, &["is already rolled back"]);
}

#[test]
fn ended_rollout_cannot_be_changed() {
    let world = World::new(1);
    let name = world.rollout(10);
    world.set_status(
        "rollout",
        &name,
        &json!({"phase": "Complete", "plan": {}, "waves": [], "total": 1, "updated": 1, "failed": 0, "inFlight": []}),
    );
    for verb in ["pause", "resume", "abort", "approve"] {
        assert_fails(&world.kiln(&["rollout", verb, &name]), 1, &["has ended: it is Complete", "hint:"]);
    }
}

#[test]
fn history_lists_the_rollouts_of_a_pool_and_list_only_open_ones() {
    let world = World::new(1);
    let (first, second) = (world.rollout(10), world.rollout(20));
    let ended = json!({"phase": "Complete", "plan": {}, "waves": [], "total": 1, "updated": 1, "failed": 0, "inFlight": [], "endedAt": "2026-08-01T10:00:00Z"});
    world.set_status("rollout", &first, &ended);
    let names = |rows: &serde_json::Value| -> Vec<String> {
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut history = names(&world.json(&["rollout", "history", "--pool", &world.pool]));
    history.sort();
    let mut both = vec![first.clone(), second.clone()];
    both.sort();
    assert_eq!(history, both);
    let text = world.kiln(&["rollout", "history", "--pool", &world.pool]).success().stdout;
    assert!(text.contains("Complete") && text.contains("2026-08-01T10:00:00Z"), "{text}");
    let open = names(&world.json(&["rollout", "list"]));
    assert!(open.contains(&second) && !open.contains(&first), "{open:?}");
    assert_fails(&world.kiln(&["rollout", "history", "--pool", "typo"]), 2, &["Pool `typo` does not exist"]);
}

#[test]
fn status_as_json_answers_the_four_questions() {
    let world = World::new(1);
    let name = world.rollout(10);
    let node = world.node(0);
    world.apply(
        &json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeState", "metadata": {"name": node}, "spec": {}}),
    );
    world.set_status(
        "nodestate",
        &node,
        &json!({"phase": "Pending", "effect": "drain", "message": "waits for a drain"}),
    );
    let status = json!({
        "observedGeneration": 1, "phase": "Progressing", "plan": {"drain": 1}, "waves": waves(), "total": 13, "updated": 1, "failed": 0,
        "inFlight": [node], "waitingFor": {"reason": "Nodes", "message": "1 node is in flight", "objects": [node]},
    });
    world.set_status("rollout", &name, &status);
    let printed = world.json(&["rollout", "status", &name]);
    let view = &printed["rollouts"][0];
    assert_eq!(
        view["inFlight"],
        json!([{"node": node, "phase": "Pending", "effect": "drain", "message": "waits for a drain"}])
    );
    let answers = &view["answers"];
    assert_eq!(answers["waitingFor"], format!("1 node is in flight (`{node}`)"));
    assert!(answers["stop"].as_str().unwrap().contains(&format!("kiln rollout pause {name}")), "{answers}");
    assert!(answers["goBack"].as_str().unwrap().contains("no target before"), "{answers}");
    assert!(answers["owner"].as_str().unwrap().starts_with("alice"), "{answers}");
    let text = world.kiln(&["rollout", "status", &name]).success().stdout;
    assert!(text.contains("what is it waiting for?  1 node is in flight"), "{text}");
    assert_fails(&world.kiln(&["rollout", "status", "typo"]), 2, &["Rollout `typo` does not exist"]);
}
