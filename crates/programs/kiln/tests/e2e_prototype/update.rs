//! The way of a version, from the plan to what changed.

use crate::golden::golden;
use crate::world::{SMALL, World, node};

#[test]
fn a_donor_becomes_the_image_of_new_nodes_and_everything_is_given_back() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    golden("status-before.txt", &world.ends(0, &["status"]).stdout);
    golden("plan.txt", &world.ends(0, &["plan", "--target-node", &donor]).stdout);
    assert_eq!(world.journal(), "", "a plan writes nothing");

    let update = world.ends(0, &["update", "--target-node", &donor, "--new-updated-nodes", "1"]);
    golden("update.txt", &update.stdout);
    golden("update-progress.txt", &update.stderr);
    world.is_free(&donor);
    golden("status-after.txt", &world.ends(0, &["status"]).stdout);
    world.until("the new node is Ready", || {
        world.nodes().iter().filter(|node| crate::world::is_ready(node)).count() == 4
    });
    let said = world.ends(0, &["status", "--output", "json"]).json();
    assert_eq!(said["pools"][0]["versions"][0]["instances"], 1, "{said}");

    golden("history.txt", &world.ends(0, &["history", "--steps"]).stdout);
    golden("plan-again.txt", &world.ends(0, &["plan", "--target-node", &donor, "--no-inspect"]).stdout);

    // A day later, from a node that was not patched.
    let next = ["--now", "2026-11-17T01:00:00Z"];
    world.ends(0, &[&["update", "--target-node", &node(1)], &next[..]].concat());
    golden("diff.txt", &world.ends(0, &["diff", "2026.11.16", "2026.11.17"]).stdout);
    let diff = world.ends(0, &["diff", "2026.11.17", "2026.11.16", "--output", "json"]).json();
    assert_eq!(diff["system"][0]["after"], "5.4.0-1036-azure", "{diff}");
    let unknown = world.ends(1, &["diff", "2026.11.16", "2020.01.01"]);
    assert!(unknown.stderr.contains("known are 2026.11.16, 2026.11.17"), "{unknown}");

    let fresh = ["status", "--max-age", "2h", "--now", "2026-11-17T02:00:00Z"];
    world.ends(0, &fresh);
    let old = world.ends(1, &["status", "--max-age", "7d", "--now", "2026-11-25T01:30:00Z"]);
    golden("status-old.txt", &format!("{}{}", old.stdout, old.stderr));
}

#[test]
fn log_lines_have_the_form_that_kamino_gives_them_and_a_copy_of_the_journal_is_kept() {
    let world = World::instant(SMALL);
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal.jsonl");
    let path = journal.to_str().expect("UTF-8");
    let donor = World::donor();
    let arguments = ["update", "--target-node", &donor, "--log-timestamps", "--log-prefix", "night", "--journal", path];
    let update = world.ends(0, &arguments);
    for line in update.stderr.lines() {
        let mut fields = line.split('\t');
        let time = fields.next().unwrap_or_default();
        assert!(time.starts_with("2026-11-16 01:0") && time.as_bytes().get(19) == Some(&b','), "{line}");
        assert_eq!(fields.next(), Some("night"), "{line}");
        let rest = fields.next().unwrap_or_default();
        assert!(rest.starts_with("INFO: ") || rest.starts_with("WARNING: "), "{line}");
    }
    assert!(update.stderr.contains("\tINFO: "), "{update}");
    let copied = std::fs::read_to_string(&journal).expect("the copy");
    let events = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        lines.map(|entry| entry["event"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(events(&copied), events(&world.journal()));

    // Only what is wrong, and nothing is.
    let quiet = world.ends(0, &["resume", "--log-level", "ERROR"]);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout.as_str()), ("", "no run is open\n"));
}
