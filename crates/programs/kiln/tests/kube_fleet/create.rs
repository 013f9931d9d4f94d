//! `kiln rollout create`.

use serde_json::json;

use crate::world::{World, assert_fails};

#[test]
fn document_becomes_a_node_config_and_a_rollout() {
    let world = World::new(1);
    let file = world.document(10);
    let created = world.json(&[
        "rollout",
        "create",
        "-f",
        &file,
        "--pool",
        &world.pool,
        "--on-failure",
        "halt",
        "--replacement",
        "never",
    ]);
    let (name, digest) = (created["rollout"].as_str().unwrap(), created["digest"].as_str().unwrap());
    assert_eq!(name, format!("{}-{}", world.pool, &digest[..8]));
    assert_eq!(created["nodeConfigCreated"], true, "{created}");
    let rollout = world.get("rollout", name);
    assert_eq!(
        rollout["spec"],
        json!({
            "pools": [world.pool], "target": {"nodeConfig": name, "digest": digest},
            "onFailure": "Halt", "replacement": "Never",
        })
    );
    assert!(
        rollout["metadata"]["annotations"]["node.kiln.dev/created-by"].as_str().unwrap().starts_with("alice"),
        "{rollout}"
    );
    let document = world.get("nodeconfig", name)["spec"]["document"].as_str().unwrap().to_owned();
    let config = kiln_node_config::NodeConfig::parse(document.as_bytes()).expect("a document");
    assert_eq!(config.hash(), digest);
    assert_eq!(config.spec.os.sysctl["vm.swappiness"], "10");
}

#[test]
fn same_command_twice_creates_nothing_new() {
    let world = World::new(1);
    let name = world.rollout(10);
    let file = world.document(10);
    let again = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool]);
    assert_eq!(
        (&again["rollout"], &again["created"], &again["nodeConfigCreated"]),
        (&json!(name), &json!(false), &json!(false))
    );
    let text = world.kiln(&["rollout", "create", "-f", &file, "--pool", &world.pool]).success().stdout;
    assert!(text.contains("exists and already brings this document to these pools"), "{text}");

    // The document has been rolled out before: a second rollout gets a number, and uses the same NodeConfig.
    world.set_status(
        "rollout",
        &name,
        &json!({"phase": "Aborted", "plan": {}, "waves": [], "total": 0, "updated": 0, "failed": 0, "inFlight": []}),
    );
    let second = world.json(&["rollout", "create", "--node-config", &name, "--pool", &world.pool]);
    assert_eq!(second["rollout"], format!("{name}-2"));
    assert_eq!(second["nodeConfig"], name);
}

#[test]
fn name_of_another_rollout_is_refused() {
    let world = World::new(1);
    let name = world.rollout(10);
    let file = world.document(20);
    let refused = world.kiln(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--name", &name]);
    assert_fails(&refused, 1, &["exists and does something else", "hint: choose another `--name`"]);
}

#[test]
fn node_config_of_the_same_name_with_another_document_is_a_conflict() {
    let world = World::new(1);
    let file = world.document(10);
    let planned = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--dry-run"]);
    let name = planned["nodeConfig"].as_str().unwrap();
    let other = json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig"}).to_string();
    world.apply(&json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name}, "spec": {"document": other},
    }));
    let refused = world.kiln(&["rollout", "create", "-f", &file, "--pool", &world.pool]);
    assert_fails(&refused, 1, &["exists with another document", "hint:"]);
}

#[test]
fn dry_run_shows_the_effects_and_creates_nothing() {
    let world = World::new(1);
    let first = world.rollout(10);
    let target = world.get("rollout", &first)["spec"]["target"].clone();
    world.set_status("pool", &world.pool, &json!({"nodes": 1, "upToDate": 1, "unavailable": 0, "target": target}));
    let file = world.document(20);
    let planned = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--dry-run"]);
    assert_eq!(planned["pools"], json!([{"pool": world.pool, "effect": "reload", "changedFields": 1}]));
    assert!(
        planned["notes"][0].as_str().unwrap().contains(&format!("`{first}`")),
        "the older rollout has priority: {planned}"
    );
    let name = planned["rollout"].as_str().unwrap();
    for kind in ["rollout", "nodeconfig"] {
        assert!(crate::world::plane().get(&[kind, name]).is_err(), "{kind} {name} was created");
    }
}

#[test]
fn pools_and_policies_that_do_not_exist_are_named_with_the_existing_ones() {
    let world = World::new(1);
    let file = world.document(10);
    let missing = world.kiln(&["rollout", "create", "-f", &file, "--pool", "typo"]);
    assert_fails(&missing, 2, &["Pool `typo` does not exist", "hint: the cluster has"]);
    let missing = world.kiln(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--policy", "typo"]);
    assert_fails(&missing, 2, &["RolloutPolicy `typo` does not exist"]);
    let missing = world.kiln(&["rollout", "create", "--node-config", "typo", "--pool", &world.pool]);
    assert_fails(&missing, 2, &["NodeConfig `typo` does not exist"]);
}

#[test]
fn rejected_document_and_documents_with_errors_are_refused() {
    let world = World::new(1);
    let file = world.document(10);
    let planned = world.json(&["rollout", "create", "-f", &file, "--pool", &world.pool, "--dry-run"]);
    world.set_status(
        "pool",
        &world.pool,
        &json!({"nodes": 1, "upToDate": 0, "unavailable": 0, "rejected": [planned["digest"]]}),
    );
    let refused = world.kiln(&["rollout", "create", "-f", &file, "--pool", &world.pool]);
    assert_fails(&refused, 1, &["rejects this document, because it failed there before", "hint: change the document"]);

    let content = "  files:\n    - path: /etc/app.conf\n      content: |\n        password=hunter2hunter2\n";
    let secret = world.write("secret.yaml", &format!("{}{content}", world.text("1.33.7", 10)));
    let refused = world.kiln(&["rollout", "create", "-f", &secret, "--pool", &world.pool]);
    assert_fails(&refused, 2, &["secret.yaml:", "must not contain secrets"]);
    assert!(!refused.stderr.contains("hunter2"), "{refused}");
}

#[test]
fn notes_name_a_paused_pool_and_a_freeze() {
    let world = World::new(1);
    world.apply(&json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "Pool", "metadata": {"name": world.pool},
        "spec": {"nodeSelector": {"pool": world.pool}, "paused": true},
    }));
    let freeze = world.json(&["freeze", "on", "--reason", "incident 4711", "--pool", &world.pool]);
    let created = world.json(&["rollout", "create", "-f", &world.document(10), "--pool", &world.pool]);
    let notes = created["notes"].to_string();
    for text in ["is paused", freeze["freeze"].as_str().unwrap(), "incident 4711"] {
        assert!(notes.contains(text), "{text}: {created}");
    }
    world.ok(&["freeze", "off", freeze["freeze"].as_str().unwrap()]);
}
