//! `kiln rollout status --watch`: the exit code tells how the rollout ended.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::Kiln;

use crate::world::{World, plane};

/// The limit for a line or the end; a slow machine needs a fraction of it.
const LIMIT: Duration = Duration::from_mins(2);

fn status(phase: &str, updated: i64, verdict: &str) -> Value {
    json!({
        "observedGeneration": 1, "phase": phase, "plan": {}, "total": 2, "updated": updated, "failed": 0, "inFlight": [],
        "waves": [{"size": 2, "done": updated, "failed": 0, "verdict": verdict}],
    })
}

/// Watches a rollout that begins with one updated node, ends it with `end` once the watch has printed its first state, and returns exit code and output.
fn watched(end: impl FnOnce(&World, &str), output: &str) -> (Option<i32>, Vec<String>) {
    let world = World::new(2);
    let name = world.rollout(10);
    world.set_status("rollout", &name, &status("Progressing", 1, "Running"));
    let mut command =
        Kiln::at(env!("CARGO_BIN_EXE_kiln")).command(&["rollout", "status", &name, "--watch", "--output", output]);
    command.env("KUBECONFIG", plane().kubeconfig()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kiln runs");
    let stdout = BufReader::new(child.stdout.take().expect("standard output"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let mut printed = vec![lines.recv_timeout(LIMIT).expect("a first line")];
    end(&world, &name);
    while let Ok(line) = lines.recv_timeout(LIMIT) {
        printed.push(line);
    }
    let result = child.wait_with_output().expect("kiln ends");
    printed.extend(String::from_utf8_lossy(&result.stderr).lines().map(ToOwned::to_owned));
    (result.status.code(), printed)
}

#[test]
fn complete_rollout_ends_the_watch_with_success_and_only_changes_are_printed() {
    let end = |world: &World, name: &str| world.set_status("rollout", name, &status("Complete", 2, "Passed"));
    let (code, printed) = watched(end, "text");
    assert_eq!(code, Some(0), "{printed:#?}");
    let count = |text: &str| printed.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("Progressing, 1 of 2 nodes updated"), 1, "{printed:#?}");
    assert_eq!(count("wave 1 of 1: passed, 2 of 2 nodes updated"), 1, "{printed:#?}");
    assert_eq!(count("Complete, 2 of 2 nodes updated"), 1, "{printed:#?}");
}

#[test]
fn halted_rolled_back_and_aborted_rollouts_end_the_watch_with_a_failure() {
    for (phase, says) in [("Halted", "halted"), ("RolledBack", "was rolled back"), ("Aborted", "was aborted")] {
        let end = |world: &World, name: &str| {
            // Rolling back is not the end.
            world.set_status("rollout", name, &status("RollingBack", 1, "Failed"));
            world.set_status("rollout", name, &status(phase, 1, "Failed"));
        };
        let (code, printed) = watched(end, "text");
        assert_eq!(code, Some(1), "{printed:#?}");
        assert!(printed.iter().any(|line| line.contains(says) && line.starts_with("error: ")), "{says}: {printed:#?}");
    }
}

#[test]
fn deleted_rollout_ends_the_watch_with_a_failure() {
    let end = |_: &World, name: &str| drop(plane().run_kubectl(&["delete", "rollout", name]).expect("deleted"));
    let (code, printed) = watched(end, "text");
    assert_eq!(code, Some(1), "{printed:#?}");
    assert!(printed.iter().any(|line| line.contains("was deleted before it ended")), "{printed:#?}");
}

#[test]
fn watch_as_json_prints_one_object_per_change() {
    let end = |world: &World, name: &str| world.set_status("rollout", name, &status("Complete", 2, "Passed"));
    let (code, printed) = watched(end, "json");
    assert_eq!(code, Some(0), "{printed:#?}");
    let phases: Vec<Value> =
        printed.iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["phase"].clone()).collect();
    assert_eq!(phases, ["Progressing", "Complete"]);
}
