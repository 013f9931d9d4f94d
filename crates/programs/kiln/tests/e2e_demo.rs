//! `kiln demo` as a newcomer runs it.

use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

/// Output, JSON result and report of one run, shared by the tests.
fn demo() -> &'static (Output, Value, String) {
    static DEMO: OnceLock<(Output, Value, String)> = OnceLock::new();
    DEMO.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("report.html");
        let mut command = kiln();
        command.args(["demo", "--speed", "instant", "--output", "json", "--out"]).arg(&report);
        let output = command.output().expect("kiln runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outcome = serde_json::from_slice(&output.stdout).expect("only JSON on standard output");
        let page = std::fs::read_to_string(report).expect("the report");
        (output, outcome, page)
    })
}

#[test]
fn the_demo_creates_an_image_from_a_node_and_a_node_from_the_image() {
    let (_, outcome, _) = demo();
    let nodes = outcome["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 12, "ten, one from the old recipe, one from the image");
    assert_eq!(nodes[0]["name"], "k8s-agentpool1-26100436-vmss000000");
    assert_eq!(nodes[11]["name"], "k8s-agentpool1-26100436-vmss00000b", "the node's name, not the computer's");
    assert!(nodes.iter().all(|node| node["state"] == "Ready"), "both donors are Ready again: {nodes:?}");
    let image = |index: usize| nodes[index]["image"].as_str().expect("an image");
    assert!(image(10).contains("UbuntuServer"), "{}", image(10));
    assert_eq!(image(11), outcome["version"].as_str().expect("a version"));
    // The simulation takes 209.3 s with cloud-init and the script, and 67.6 s without; kubelets run once a second.
    let seconds = |boot: &str| outcome[boot]["seconds"].as_f64().expect("seconds");
    assert!((209.0..212.0).contains(&seconds("before")) && (67.0..70.0).contains(&seconds("after")), "{outcome}");
    assert_eq!((&outcome["before"]["stalePackages"], &outcome["after"]["stalePackages"]), (&41.into(), &0.into()));
    assert_eq!(outcome["after"]["imagesToPull"], 0);
}

#[test]
fn the_demo_rejects_a_bad_version_by_its_canary() {
    let (_, outcome, _) = demo();
    let rejected = &outcome["rejected"];
    assert_eq!(rejected["currentVersion"], outcome["version"], "new nodes are created from the good version");
    assert_ne!(rejected["version"], outcome["version"]);
    assert!(rejected["reason"].as_str().expect("a reason").contains("canary is not Ready"), "{rejected}");
}

#[test]
fn progress_on_stderr_has_each_step_with_its_duration() {
    let (output, outcome, _) = demo();
    let progress = String::from_utf8_lossy(&output.stderr);
    // 183 s in the simulation. The world has no Service of type LoadBalancer, so no load balancer has to take the donor out first.
    assert!(progress.contains("3 m 03 s * donor stopped") && progress.contains("snapshot created"), "{progress}");
    let steps = outcome["steps"].as_array().expect("steps");
    let held = |name: &str| steps.iter().find(|step| step["name"] == name).expect("the step")["donorHeld"].clone();
    assert_eq!((held("power-off"), held("publish")), (true.into(), false.into()));
}

#[test]
fn the_report_shows_both_boots_the_run_and_the_rejected_version() {
    let (_, outcome, page) = demo();
    let rejected = outcome["rejected"]["version"].as_str().expect("a version");
    for text in ["from the image", "old recipe", "script-extension", "power-off", "A rejected image version", rejected]
    {
        assert!(page.contains(text), "{text} is missing");
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let temp = tempfile::tempdir().expect("a folder");
    // Slow enough that the signal arrives during the first boot.
    let mut child = kiln()
        .args(["demo", "--speed", "0.01"])
        .current_dir(temp.path())
        .env("TMPDIR", temp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln runs");
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("standard error"));
    let mut line = String::new();
    while !line.contains("Add a node from the old recipe") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut stderr, &mut line).expect("a line"), 0, "the demo ended early");
    }
    std::thread::sleep(Duration::from_millis(100));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("exit status").code(), Some(130));
    assert!(std::fs::read_dir(temp.path()).expect("the folder").next().is_none(), "files were left behind");
}

/// JSON result and report of one run of `kiln demo --fleet`, shared by the tests.
fn fleet() -> &'static (Value, String) {
    static FLEET: OnceLock<(Value, String)> = OnceLock::new();
    FLEET.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("report.html");
        let mut command = kiln();
        command.args(["demo", "--fleet", "--speed", "instant", "--output", "json", "--out"]).arg(&report);
        let output = command.output().expect("kiln runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let outcome = serde_json::from_slice(&output.stdout).expect("only JSON on standard output");
        (outcome, std::fs::read_to_string(report).expect("the report"))
    })
}

#[test]
fn good_rollout_reaches_forty_nodes_in_growing_waves() {
    let (outcome, page) = fleet();
    let good = &outcome["good"];
    assert_eq!((&good["phase"], &good["updated"], &good["failed"]), (&"Complete".into(), &40.into(), &0.into()));
    let sizes: Vec<i64> =
        good["waves"].as_array().expect("waves").iter().map(|wave| wave["size"].as_i64().expect("a size")).collect();
    assert_eq!(sizes[..3], [1, 3, 9], "{sizes:?}");
    assert_eq!(sizes.iter().sum::<i64>(), 40, "{sizes:?}");
    assert!(page.contains("wave 3: 9 nodes"), "{page}");
}

#[test]
fn bad_rollout_stops_after_one_node_and_leaves_the_good_document_everywhere() {
    let (outcome, _) = fleet();
    let bad = &outcome["bad"];
    assert_eq!((&bad["phase"], &bad["touched"], &bad["failed"]), (&"RolledBack".into(), &1.into(), &1.into()));
    assert!(bad["failures"][0]["reason"].as_str().expect("a reason").contains("gate `kubelet` failed"), "{bad}");
    assert_eq!((&outcome["nodesWithTheGoodDocument"], &outcome["cordonedNodes"]), (&40.into(), &0.into()));
}
