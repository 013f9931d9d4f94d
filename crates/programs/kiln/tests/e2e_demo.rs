//! `kiln demo`, run as a newcomer runs it.

use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

/// One run for all who look at what came of it: what it said, what it told, and its report.
fn told() -> &'static (Output, Value, String) {
    static TOLD: OnceLock<(Output, Value, String)> = OnceLock::new();
    TOLD.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("report.html");
        let mut command = kiln();
        command.args(["demo", "--speed", "instant", "--output", "json", "--report"]).arg(&report);
        let output = command.output().expect("kiln runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outcome = serde_json::from_slice(&output.stdout).expect("json on standard output alone");
        let page = std::fs::read_to_string(report).expect("the report");
        (output, outcome, page)
    })
}

#[test]
fn the_demo_makes_an_image_of_a_node_and_a_node_of_the_image() {
    let (_, outcome, _) = told();
    let nodes = outcome["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 12, "ten, one by the old recipe, one from the image");
    assert_eq!(nodes[0]["name"], "k8s-agentpool1-26100436-vmss000000");
    assert!(nodes.iter().all(|node| node["state"] == "Ready"), "both donors are back too: {nodes:?}");
    let image = |index: usize| nodes[index]["image"].as_str().expect("an image");
    assert!(image(10).contains("UbuntuServer"), "{}", image(10));
    assert_eq!(image(11), outcome["version"].as_str().expect("a version"));
    // The world's own figures are 209.3 s with cloud-init and script, 67.6 s without; kubelets look once a second.
    let seconds = |boot: &str| outcome[boot]["seconds"].as_f64().expect("seconds");
    assert!((209.0..212.0).contains(&seconds("before")) && (67.0..70.0).contains(&seconds("after")), "{outcome}");
    assert_eq!((&outcome["before"]["stalePackages"], &outcome["after"]["stalePackages"]), (&41.into(), &0.into()));
    assert_eq!(outcome["after"]["imagesToPull"], 0);
}

#[test]
fn the_demo_catches_a_bad_version_by_its_canary() {
    let (_, outcome, _) = told();
    let caught = &outcome["caught"];
    assert_eq!(caught["newNodesGet"], outcome["version"], "new nodes get the good one");
    assert_ne!(caught["version"], outcome["version"]);
    assert!(caught["reason"].as_str().expect("a reason").contains("canary has not joined"), "{caught}");
}

#[test]
fn progress_is_on_stderr_with_each_step_and_what_it_took() {
    let (output, outcome, _) = told();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("3 m 03 s * the donor is off") && said.contains("its disk is copied"), "{said}");
    let steps = outcome["steps"].as_array().expect("steps");
    let held = |name: &str| steps.iter().find(|step| step["name"] == name).expect("the step")["donorHeld"].clone();
    assert_eq!((held("power-off"), held("publish")), (true.into(), false.into()));
}

#[test]
fn the_report_shows_both_boots_the_run_and_what_was_caught() {
    let (_, outcome, page) = told();
    let caught = outcome["caught"]["version"].as_str().expect("a version");
    for text in ["from the image", "old recipe", "script-extension", "power-off", "A bad version, caught", caught] {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let temp = tempfile::tempdir().expect("a folder");
    // Slow enough to be in the middle of the first boot.
    let mut child = kiln()
        .args(["demo", "--speed", "0.01"])
        .current_dir(temp.path())
        .env("TMPDIR", temp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln runs");
    let mut said = std::io::BufReader::new(child.stderr.take().expect("its standard error"));
    let mut line = String::new();
    while !line.contains("A new node by the old recipe") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut said, &mut line).expect("a line"), 0, "it ended by itself");
    }
    std::thread::sleep(Duration::from_millis(100));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    assert!(std::fs::read_dir(temp.path()).expect("the folder").next().is_none(), "nothing is left");
}
