//! `plan`, `update`, `status`, `history` and `diff`.

use crate::golden::assert_golden;
use crate::world::{POOL, SMALL, World, is_ready, node};

#[test]
fn donor_becomes_the_image_of_new_nodes_and_all_holds_are_released() {
    let world = World::instant(SMALL);
    let donor = World::donor();
    assert_golden("status-before.txt", &world.exits_with(0, &["status"]).stdout);
    assert_golden("plan.txt", &world.exits_with(0, &["plan", "--target-node", &donor]).stdout);
    assert_eq!(world.journal(), "", "a plan writes nothing");

    let update = world.exits_with(0, &["update", "--target-node", &donor, "--new-updated-nodes", "1"]);
    assert_golden("update.txt", &update.stdout);
    assert_golden("update-progress.txt", &update.stderr);
    world.assert_not_held(&donor);
    assert_golden("status-after.txt", &world.exits_with(0, &["status"]).stdout);
    world.wait_until("the new node is Ready", || world.nodes().iter().filter(|node| is_ready(node)).count() == 4);
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    assert_eq!(status["pools"][0]["versions"][0]["instances"], 1, "{status}");

    assert_golden("history.txt", &world.exits_with(0, &["history", "--steps"]).stdout);
    assert_golden("plan-again.txt", &world.exits_with(0, &["plan", "--target-node", &donor, "--no-inspect"]).stdout);

    // A day later, from an unpatched node.
    let next = ["--now", "2026-11-17T01:00:00Z"];
    world.exits_with(0, &[&["update", "--target-node", &node(1)], &next[..]].concat());
    assert_golden("diff.txt", &world.exits_with(0, &["diff", "2026.11.16", "2026.11.17"]).stdout);
    let diff = world.exits_with(0, &["diff", "2026.11.17", "2026.11.16", "--output", "json"]).json();
    assert_eq!(diff["system"][0]["after"], "5.4.0-1036-azure", "{diff}");
    let unknown = world.exits_with(1, &["diff", "2026.11.16", "2020.01.01"]);
    assert!(unknown.stderr.contains("known versions: 2026.11.16, 2026.11.17"), "{unknown}");

    let fresh = ["status", "--max-age", "2h", "--now", "2026-11-17T02:00:00Z"];
    world.exits_with(0, &fresh);
    let old = world.exits_with(1, &["status", "--max-age", "7d", "--now", "2026-11-25T01:30:00Z"]);
    assert_golden("status-old.txt", &format!("{}{}", old.stdout, old.stderr));
}

#[test]
fn node_with_a_letter_in_its_number_can_be_the_donor() {
    let world = World::instant(&SMALL.replace("capacity: 3", "capacity: 50"));
    // Azure's computer name is `…00000B`.
    let donor = format!("{POOL}00000b");
    world.wait_until("the node is ready", || {
        world.nodes().iter().any(|node| node.metadata.name.as_deref() == Some(&donor) && is_ready(node))
    });
    let plan = world.exits_with(0, &["plan", "--target-node", &donor]);
    assert!(plan.stdout.contains(&donor), "{plan}");
}

#[test]
fn log_has_kaminos_format_and_log_and_journal_file_have_the_timestamps_of_the_journal() {
    let world = World::instant(SMALL);
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal.jsonl");
    let path = journal.to_str().expect("UTF-8");
    let donor = World::donor();
    let arguments = ["update", "--target-node", &donor, "--log-timestamps", "--log-prefix", "night", "--journal", path];
    let update = world.exits_with(0, &arguments);
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
    // The journal drops the handles of operations that have ended.
    let without_handles: Vec<&str> = copied.lines().filter(|line| !line.contains("\"event\":\"accepted\"")).collect();
    assert_eq!(
        without_handles,
        world.journal().lines().collect::<Vec<_>>(),
        "the same entries with the same timestamps"
    );
    let mut compared = 0;
    for line in copied.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if entry["event"] != "succeeded" {
            continue;
        }
        let at: jiff::Timestamp = entry["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
        let (time, step) = (at.strftime("%Y-%m-%d %H:%M:%S"), entry["step"].as_str().expect("a step"));
        let logged = format!("{time},{:03}\tnight\tINFO: {POOL}: {step} done", at.subsec_millisecond());
        assert!(update.stderr.contains(&logged), "{logged}: {update}");
        compared += 1;
    }
    assert!(compared > 20, "{copied}");

    // With level ERROR a successful command logs nothing.
    let quiet = world.exits_with(0, &["resume", "--log-level", "ERROR"]);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout.as_str()), ("", "no open runs\n"));
}

#[test]
fn first_run_writes_its_journal_fewer_than_80_times() {
    let world = World::instant(SMALL);
    let watch = world.watch_journal();
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    let (writes, entries) = (watch.count(), world.journal().lines().count());
    assert!(writes < 80, "{writes} writes");
    assert!(writes >= entries && entries > 40, "{writes} writes of {entries} entries: the watch missed some");
}
