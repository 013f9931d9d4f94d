//! Failures and their exit codes.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::golden::assert_golden;
use crate::world::{NOW, POOL, SMALL, World, node};

/// An image version takes 6,266 simulated seconds: 42 s of real time, enough for a second command on a busy machine.
const SLOW: &str = "150";

#[test]
fn killed_run_is_resumed_and_two_runs_exclude_each_other() {
    let world = World::start(SMALL, "", SLOW);
    let donor = World::donor();
    let first = world.spawn(&["update", "--target-node", &donor]);
    world.wait_until("the version is being created", || {
        world.journal().lines().any(|line| line.contains("\"publish\"") && line.contains("\"accepted\""))
    });
    world.assert_not_held(&donor);
    let second = world.exits_with(3, &["update", "--target-node", &node(1)]);
    assert!(second.stderr.contains("is in use by `pod-default-tests/"), "{second}");
    assert_eq!(second.stdout, "");

    first.kill();
    let status = world.exits_with(0, &["status"]);
    assert!(status.stdout.contains("is open at publish"), "{status}");
    let resumed = world.exits_with(0, &["resume", "--now", NOW]);
    assert_golden("resume.txt", &resumed.stdout);
    let events = world.journal();
    assert!(events.contains("\"resumed\"") && events.contains("\"completed\""), "{events}");
    assert_eq!(events.matches("\"opened\"").count(), 1, "{events}");
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.16", "{status}");
}

#[test]
fn donor_that_does_not_become_ready_needs_a_person() {
    let world = SMALL.replace("{patched: true}", "{patched: true, defects: [neverReady]}");
    let world = World::instant(&world);
    let donor = World::donor();
    let stuck = world.exits_with(4, &["update", "--target-node", &donor, "--clock-rate", "2000"]);
    assert_golden("stuck.txt", &format!("{}{}", stuck.stdout, last_lines(&stuck.stderr, 2)));
    let status = world.exits_with(0, &["status"]);
    assert!(status.stdout.contains("is open at await-ready"), "{status}");
    let history = world.exits_with(0, &["history"]);
    assert!(history.stdout.contains("open, holds"), "{history}");
}

#[test]
fn run_whose_step_fails_permanently_exits_with_1_and_releases_all_holds() {
    // Azure rejects the snapshot because the quota is exceeded. A retry cannot help.
    let fault = "faults: [{kind: quota-exceeded, method: PUT, type: Microsoft.Compute/snapshots}]\n";
    let world = World::start(SMALL, fault, "instant");
    let donor = World::donor();
    let failed = world.exits_with(1, &["update", "--target-node", &donor]);
    assert_golden("failed.txt", &format!("{}{}", failed.stdout, last_lines(&failed.stderr, 2)));
    assert!(failed.stdout.contains("failed at snapshot, all holds released: "), "{failed}");
    assert!(failed.stdout.contains("QuotaExceeded"), "the planned fault did not fire: {failed}");
    assert!(failed.stderr.contains("error: k8s-agentpool1-26100436-vmss: the run failed at snapshot;"), "{failed}");
    assert!(failed.stderr.contains("hint: fix the problem above, then run the command again"), "{failed}");

    world.assert_not_held(&donor);
    let journal = world.journal();
    let closed = journal.lines().last().unwrap_or_default();
    assert!(closed.contains("\"closed\"") && closed.contains("\"failed\""), "{journal}");
    let history = world.exits_with(0, &["history", "--output", "json"]).json();
    assert_eq!(history["pools"][0]["runs"][0]["holds"], serde_json::json!([]), "{history}");
    // The lease is free, the claim is gone and the donor is unprotected: the next run completes.
    world.exits_with(0, &["update", "--target-node", &donor]);
}

#[test]
fn journal_of_an_older_kiln_is_rejected_with_what_to_do() {
    let world = World::instant(SMALL);
    let old = include_str!("../../../../core/prototype/tests/engine/schema1.jsonl");
    let name = format!("kiln-journal-{POOL}");
    world.create::<ConfigMap>(&serde_json::json!({"metadata": {"name": name}, "data": {"journal.jsonl": old}}));
    let donor = World::donor();
    for arguments in [&["status"][..], &["resume"], &["update", "--target-node", &donor]] {
        let refused = world.exits_with(1, arguments);
        assert!(refused.stderr.contains("written by an older kiln (schema 1; this kiln reads schema 2)"), "{refused}");
        assert!(refused.stderr.contains(&format!("kubectl delete configmap --namespace default {name}")), "{refused}");
    }
    assert_eq!(world.journal(), old, "the old journal is not changed");
}

/// A journal as kiln left it before it dropped handles: closed runs with handles of 3,200 characters, and an open run.
fn filled_journal(world: &World, schema: u32) -> String {
    let opened =
        include_str!("../../../../core/prototype/tests/engine/golden.jsonl").lines().next().unwrap_or_default();
    let opened = opened.replace("\"schema\":2", &format!("\"schema\":{schema}"));
    let line = |run: &str, rest: &str| format!("{{\"run\":\"{run}\",\"at\":\"2026-11-15T22:00:00Z\",{rest}}}\n");
    let handle = "u".repeat(3_200);
    let mut journal = String::new();
    for night in 1.. {
        let run = format!("old{night}");
        let mut text = opened.replace("\"run\":\"r1\"", &format!("\"run\":\"{run}\"")) + "\n";
        for step in ["claim", "snapshot", "publish", "include", "model"] {
            text += &line(&run, &format!("\"event\":\"started\",\"step\":\"{step}\""));
            text += &line(&run, &format!("\"event\":\"accepted\",\"step\":\"{step}\",\"handle\":\"{handle}\""));
            text += &line(&run, &format!("\"event\":\"succeeded\",\"step\":\"{step}\""));
        }
        if journal.len() + text.len() > 980_000 {
            break;
        }
        let outcome = "\"outcome\":{\"outcome\":\"completed\",\"version\":\"2026.11.15\"}";
        journal += &(text + &line(&run, &format!("\"event\":\"closed\",{outcome}")));
    }
    let name = format!("kiln-journal-{POOL}");
    world.create::<ConfigMap>(&serde_json::json!({"metadata": {"name": name}, "data": {"journal.jsonl": journal}}));
    journal
}

#[test]
fn journal_that_an_older_kiln_filled_is_shown_and_repaired() {
    let world = World::instant(SMALL);
    assert_golden("repair-nothing.txt", &world.exits_with(0, &["repair"]).stdout);
    let full = filled_journal(&world, 2);
    assert_golden("repair.txt", &world.exits_with(0, &["repair"]).stdout);
    assert_eq!(world.journal(), full, "nothing was changed");
    let shown = world.exits_with(0, &["repair", "--output", "json"]).json();
    assert_eq!((&shown["pools"][0]["done"], &shown["pools"][0]["bytesBefore"]), (&false.into(), &full.len().into()));

    assert_golden("repaired.txt", &world.exits_with(0, &["repair", "--target-vmss", POOL, "--yes"]).stdout);
    let repaired = world.journal();
    assert!(repaired.len() < full.len() / 2 && !repaired.contains("accepted"), "{} bytes", repaired.len());
    let history = world.exits_with(0, &["history", "--output", "json"]).json();
    assert!(history["pools"][0]["runs"].as_array().is_some_and(|runs| runs.len() > 20), "{history}");
    let again = world.exits_with(0, &["repair", "--yes"]);
    assert!(again.stdout.contains("nothing to repair"), "{again}");
    assert_eq!(world.journal(), repaired);
}

#[test]
fn full_journal_of_an_older_schema_is_repaired_for_the_kiln_that_wrote_it() {
    let world = World::instant(SMALL);
    let full = filled_journal(&world, 1);
    world.exits_with(0, &["repair", "--yes"]);
    let repaired = world.journal();
    assert!(repaired.len() < full.len() / 2 && repaired.contains("\"schema\":1"), "{} bytes", repaired.len());
    assert!(repaired.lines().all(|line| full.contains(line)), "the remaining entries are unchanged");
}

/// A run can write to a journal that an older kiln filled, without a repair.
#[test]
fn run_makes_room_in_a_journal_that_an_older_kiln_filled() {
    let world = World::instant(SMALL);
    filled_journal(&world, 2);
    world.exits_with(0, &["update", "--target-node", &World::donor()]);
    assert!(world.journal().len() < 480 * 1024, "{} bytes", world.journal().len());
}

#[test]
fn version_whose_canary_fails_is_rejected() {
    let world = SMALL.replace("{patched: true}", "{patched: true, defects: [cloneNeverReady]}");
    let world = World::instant(&world);
    let donor = World::donor();
    let rejected = world.exits_with(1, &["update", "--target-node", &donor, "--clock-rate", "2000"]);
    assert_golden("rejected.txt", &format!("{}{}", rejected.stdout, last_lines(&rejected.stderr, 2)));
    world.assert_not_held(&donor);
    let status = world.exits_with(0, &["status", "--output", "json"]).json();
    let version = &status["pools"][0]["versions"][0];
    assert_eq!((&version["excluded"], &version["rejected"]), (&true.into(), &true.into()), "{status}");
    assert_eq!(status["pools"][0]["newNodes"]["kind"], "otherImage", "{status}");
}

#[test]
fn blockers_are_reported_before_anything_changes() {
    let world = SMALL.replace(
        "{patched: true}",
        "{patched: true, fstab: \"UUID=1 / ext4 defaults 0 1\\nUUID=2 /data ext4 defaults 0 2\\n\"}",
    );
    let world = World::instant(&format!("{world}  upgradePolicy: Automatic\n"));
    let donor = World::donor();
    let refused = world.exits_with(1, &["update", "--target-node", &donor]);
    assert_golden("refused.txt", &format!("{}{}", refused.stdout, refused.stderr));
    assert_eq!(world.journal(), "");
    let plan = world.exits_with(1, &["plan", "--target-node", &donor]);
    assert!(plan.stderr.contains("would be refused"), "{plan}");
    let auto = [
        "auto-update",
        "--pending-reboot-annotation",
        "a/b",
        "--last-patch-annotation",
        "c/d",
        "--maximum-image-age",
        "1",
        "--minimum-ready-time",
        "0",
    ];
    let skipped = world.exits_with(0, &auto);
    assert!(skipped.stdout.contains("skipped"), "{skipped}");
}

#[test]
fn stopped_run_releases_the_donor_and_can_be_resumed() {
    let world = World::start(SMALL, "", SLOW);
    let donor = World::donor();
    let mut command = world.command(&["update", "--target-node", &donor]);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("kiln starts");
    world.wait_until("the version is being created", || {
        world.journal().lines().any(|line| line.contains("\"publish\"") && line.contains("\"accepted\""))
    });
    let id = i32::try_from(child.id()).expect("a small number");
    let killed = std::process::Command::new("kill").args(["-INT", &id.to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("kiln prototype resume"), "{stderr}");
    world.assert_not_held(&donor);
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].join("\n") + "\n"
}
