//! `kiln demo`, run as a newcomer runs it.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

#[test]
fn the_demo_makes_an_image_of_a_node_and_a_node_of_the_image() {
    let output = kiln().args(["demo", "--speed", "instant", "--output", "json"]).output().expect("kiln runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("json");
    let nodes = outcome["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 12, "ten, one by the old recipe, one from the image");
    let image = |index: usize| nodes[index]["image"].as_str().expect("an image");
    assert_eq!(nodes[0]["name"], "k8s-agentpool1-26100436-vmss000000");
    assert!(image(10).starts_with("UbuntuServer"), "{}", image(10));
    assert!(image(11).starts_with("kamino-k8s-agentpool1-26100436-vmss-prototype"), "{}", image(11));
    assert!(nodes.iter().all(|node| node["power"] == "running"), "the donor is back too");
    // The world's own figures: 209.3 s with cloud-init and script, 67.6 s without.
    assert_eq!((outcome["before"].as_f64(), outcome["after"].as_f64()), (Some(209.3), Some(67.6)));
    let stop = outcome["steps"].as_array().expect("steps").iter().find(|step| step["what"] == "donor off");
    assert_eq!(stop.expect("the stop")["seconds"], 183.0);
}

#[test]
fn the_table_is_on_stdout_and_the_progress_on_stderr() {
    let output = kiln().args(["demo", "--speed", "instant"]).output().expect("kiln runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        out.contains("NODE") && out.contains("A new node took 3 m 29 s by the old recipe and takes 1 m 08 s"),
        "{out}"
    );
    assert!(err.contains("snapshot of its disk") && !out.contains("snapshot of its disk"), "{err}");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let temp = tempfile::tempdir().expect("a folder");
    // Slow enough to be in the middle of the first operation.
    let mut child = kiln()
        .args(["demo", "--speed", "1"])
        .env("TMPDIR", temp.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln runs");
    let started = || std::fs::read_dir(temp.path()).expect("the folder").next().is_some();
    for _ in 0..600 {
        if started() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(started(), "the demo keeps its certificates below TMPDIR while it runs");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(130));
    assert!(!started(), "nothing is left below TMPDIR");
}
