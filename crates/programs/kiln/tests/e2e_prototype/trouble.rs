//! What goes wrong, and the exit codes that say so.

use crate::golden::golden;
use crate::world::{NOW, SMALL, World, node};

/// An image version takes 6,266 s in this world: 21 s of ours.
const SLOW: &str = "300";

#[test]
fn a_run_that_was_killed_is_gone_on_with_and_two_do_not_run_at_once() {
    let world = World::start(SMALL, "", SLOW);
    let donor = World::donor();
    let first = world.begin(&["update", "--target-node", &donor]);
    world.until("the version is being made", || {
        world.journal().lines().any(|line| line.contains("\"publish\"") && line.contains("\"accepted\""))
    });
    world.is_free(&donor);
    let second = world.ends(3, &["update", "--target-node", &node(1)]);
    assert!(second.stderr.contains("is being worked on by `pod-default-tests/"), "{second}");
    assert_eq!(second.stdout, "");

    first.kill();
    let status = world.ends(0, &["status"]);
    assert!(status.stdout.contains("is open at publish"), "{status}");
    let resumed = world.ends(0, &["resume", "--now", NOW]);
    golden("resume.txt", &resumed.stdout);
    let events = world.journal();
    assert!(events.contains("\"resumed\"") && events.contains("\"completed\""), "{events}");
    assert_eq!(events.matches("\"opened\"").count(), 1, "{events}");
    let status = world.ends(0, &["status", "--output", "json"]).json();
    assert_eq!(status["pools"][0]["newNodes"]["of"], "2026.11.16", "{status}");
}

#[test]
fn a_donor_that_does_not_come_back_needs_a_person() {
    let world = SMALL.replace("{patched: true}", "{patched: true, defects: [neverReady]}");
    let world = World::instant(&world);
    let donor = World::donor();
    let stuck = world.ends(4, &["update", "--target-node", &donor, "--clock-rate", "2000"]);
    golden("stuck.txt", &format!("{}{}", stuck.stdout, last_lines(&stuck.stderr, 2)));
    let status = world.ends(0, &["status"]);
    assert!(status.stdout.contains("is open at await-ready"), "{status}");
    let history = world.ends(0, &["history"]);
    assert!(history.stdout.contains("open, holds"), "{history}");
}

#[test]
fn a_version_whose_canary_does_not_join_is_given_to_nobody() {
    let world = SMALL.replace("{patched: true}", "{patched: true, defects: [cloneNeverReady]}");
    let world = World::instant(&world);
    let donor = World::donor();
    let condemned = world.ends(1, &["update", "--target-node", &donor, "--clock-rate", "2000"]);
    golden("condemned.txt", &format!("{}{}", condemned.stdout, last_lines(&condemned.stderr, 2)));
    world.is_free(&donor);
    let status = world.ends(0, &["status", "--output", "json"]).json();
    let version = &status["pools"][0]["versions"][0];
    assert_eq!((&version["excluded"], &version["bad"]), (&true.into(), &true.into()), "{status}");
    assert_eq!(status["pools"][0]["newNodes"]["kind"], "elsewhere", "{status}");
}

#[test]
fn what_speaks_against_a_run_is_said_before_anything_is_touched() {
    let world = SMALL.replace(
        "{patched: true}",
        "{patched: true, fstab: \"UUID=1 / ext4 defaults 0 1\\nUUID=2 /data ext4 defaults 0 2\\n\"}",
    );
    let world = World::instant(&format!("{world}  upgradePolicy: Automatic\n"));
    let donor = World::donor();
    let refused = world.ends(1, &["update", "--target-node", &donor]);
    golden("refused.txt", &format!("{}{}", refused.stdout, refused.stderr));
    assert_eq!(world.journal(), "");
    let plan = world.ends(1, &["plan", "--target-node", &donor]);
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
    let skipped = world.ends(0, &auto);
    assert!(skipped.stdout.contains("skipped"), "{skipped}");
}

#[test]
fn a_run_that_is_told_to_stop_gives_back_what_it_holds_or_says_how_to_go_on() {
    let world = World::start(SMALL, "", SLOW);
    let donor = World::donor();
    let mut command = world.command(&["update", "--target-node", &donor]);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("kiln starts");
    world.until("the version is being made", || {
        world.journal().lines().any(|line| line.contains("\"publish\"") && line.contains("\"accepted\""))
    });
    let id = i32::try_from(child.id()).expect("a small number");
    let killed = std::process::Command::new("kill").args(["-INT", &id.to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("kiln prototype resume"), "{said}");
    world.is_free(&donor);
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].join("\n") + "\n"
}
