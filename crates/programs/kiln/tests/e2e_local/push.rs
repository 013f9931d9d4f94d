//! `kiln node push` on real machines: kilnd reads the new user data from the metadata service of `kiln local` and restarts a real kubelet.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::clones::Stage;
use super::cluster::Cluster;
use super::inside::{KILN, in_sandbox, node_root};
use super::machines::output_of;
use super::root;
use super::shell::shell;

const NODES: [&str; 2] = ["nodes000000", "nodes000001"];

/// The command, with the document in a file.
fn push(stage: &Stage, folder: &Path, document: &Value) -> Command {
    let file = folder.join("web.json");
    fs::write(&file, document.to_string()).expect("written");
    let mut command = Command::new(KILN);
    command.args(["node", "push", "--pool", "nodes", "--output", "json", "--kubeconfig"]);
    command.arg(stage.cluster.plane.kubeconfig()).arg("-f").arg(file);
    command
}

#[track_caller]
fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output_of(output)))
}

/// The user data that a machine reads.
fn user_data(node: &str) -> String {
    let url = "http://169.254.169.254/metadata/instance/compute/userData?api-version=2021-05-01&format=text";
    shell(node, &format!("curl --silent --fail --header Metadata:true '{url}' | base64 --decode"))
}

fn in_force(stage: &Stage, node: &str) -> Option<String> {
    let annotations = stage.cluster.get(&["node", node])?["metadata"]["annotations"].clone();
    annotations["kiln.dev/node-config"].as_str().map(ToOwned::to_owned)
}

/// The number of pods that the kubelet of a node accepts.
fn pods(stage: &Stage, node: &str) -> Option<String> {
    stage.cluster.get(&["node", node])?["status"]["capacity"]["pods"].as_str().map(ToOwned::to_owned)
}

#[test]
fn pushed_document_reaches_kubelets_and_new_nodes_and_a_bad_one_returns() {
    let name = "push::pushed_document_reaches_kubelets_and_new_nodes_and_a_bad_one_returns";
    in_sandbox(name, |state| {
        let root = state.join("root");
        root::create_root(&root, &node_root());
        let stage = Stage::start_pool(state, &root, "--user-data", |cluster| cluster.document().to_string());
        for node in NODES {
            Cluster::wait(&format!("kilnd on `{node}` reports"), 90, || in_force(&stage, node));
        }

        // A generation that nodes would ignore is refused.
        let mut document = stage.cluster.document();
        document["spec"]["kubelet"]["configuration"]["maxPods"] = json!(37);
        let refused = push(&stage, state, &document).output().expect("kiln runs");
        assert_eq!(refused.status.code(), Some(1), "{}", output_of(&refused));
        assert!(
            output_of(&refused).contains("hint: set `metadata.generation` to 2 or more"),
            "{}",
            output_of(&refused)
        );

        // Killed after the first instance was written, and continued.
        document["metadata"]["generation"] = json!(2);
        let mut killed = push(&stage, state, &document).spawn().expect("kiln runs");
        while !user_data(NODES[0]).contains("\"maxPods\":37") {
            assert!(killed.try_wait().expect("a child").is_none(), "the push ended before it was killed");
            thread::sleep(Duration::from_millis(100));
        }
        killed.kill().expect("killed");
        killed.wait().expect("a child");
        assert!(!user_data(NODES[1]).contains("\"maxPods\":37"), "the second node comes after the first");
        let continued = push(&stage, state, &document).output().expect("kiln runs");
        assert!(continued.status.success(), "{}", output_of(&continued));
        let report = answer(&continued);
        assert_eq!((&report["outcome"], &report["updated"]), (&json!("complete"), &json!(NODES)));
        for node in NODES {
            Cluster::wait(&format!("the kubelet of `{node}` has the document"), 30, || {
                (pods(&stage, node)? == "37").then_some(())
            });
        }
        let new = stage.grow(3);
        Cluster::wait("a new node has the document", 60, || (pods(&stage, &new[0])? == "37").then_some(()));
        // The kubelet is ready before kilnd reports.
        Cluster::wait("kilnd on the new node reports", 90, || in_force(&stage, &new[0]));

        // The kubelet does not start with this document.
        document["metadata"]["generation"] = json!(3);
        document["spec"]["kubelet"]["configuration"]["evictionHard"] = json!({"memory.available": "nonsense"});
        document["spec"]["health"] = json!({"withinSeconds": 40});
        let failed = push(&stage, state, &document).output().expect("kiln runs");
        assert_eq!(failed.status.code(), Some(1), "{}", output_of(&failed));
        let report = answer(&failed);
        assert_eq!((&report["outcome"], report["failed"].as_array().map(Vec::len)), (&json!("reverted"), Some(1)));
        for node in NODES {
            assert!(!user_data(node).contains("nonsense"), "{node}");
            assert!(in_force(&stage, node).is_some_and(|value| value.starts_with("2 ")), "{node}");
        }
        stage.wait_ready(&NODES);
    });
}
