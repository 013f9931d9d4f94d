//! The commands of the guide's section about the installation, with the real Helm and kubectl.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use chart_tests::root;
use control_plane::{ControlPlane, Options};
use serde_json::json;
use testkit::guide::{Part, parts};
use testkit::{TestDep, require, run};

const PATIENCE: Duration = Duration::from_mins(3);

#[test]
fn commands_of_the_guide_install_the_operator() {
    let plane = ControlPlane::start(&Options::bare()).unwrap();
    let page = fs::read_to_string(root().join("docs/guides/fleet.md")).unwrap();
    let (_, install) = page.split_once("\n## Install\n").unwrap();
    let install = install.split("\n## ").next().unwrap();
    let home = tempfile::tempdir().unwrap();
    symlink(require(TestDep::Helm), home.path().join("helm")).unwrap();
    symlink(plane.kubectl().unwrap().get_program(), home.path().join("kubectl")).unwrap();
    let mut commands = Vec::new();
    for part in parts(install) {
        let Part::Typed { command, .. } = part else { continue };
        if command.contains(" rollout status ") {
            mark_available(&plane);
        }
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(&command).current_dir(root()).env_clear();
        shell.env("PATH", format!("{}:/usr/bin:/bin", home.path().display()));
        shell.env("HOME", home.path()).env("KUBECONFIG", plane.kubeconfig());
        let _ = run(shell, PATIENCE).success();
        commands.push(command);
    }
    assert_eq!(commands.len(), 3, "{commands:?}");
    plane.get(&["validatingadmissionpolicy", "nodestates.node.kiln.dev"]).unwrap();
}

/// What kubelets and controllers would report.
fn mark_available(plane: &ControlPlane) {
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
    });
    let patch = json!({"status": status}).to_string();
    let target = ["patch", "deployment", "kiln-operator", "--namespace", "kiln-system", "--subresource=status"];
    plane.run_kubectl(&[&target[..], &["--type=merge", "--patch", &patch]].concat()).unwrap();
}
