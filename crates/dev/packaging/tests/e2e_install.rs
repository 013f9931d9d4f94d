//! Installs kiln and kilnd from the folder of a release alone, with the commands of the guide, in a machine without a compiler.
//!
//! The programs have the profile `dev`, because a release takes minutes to compile; `az_dist` does the same with the real ones.

mod release;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use release::install::install;
use release::{VERSION, dist, program, root};
use tempfile::TempDir;
use testkit::{TestDep, require, run};

/// A release for this machine's architecture.
fn release_folder(folder: &Path) {
    let programs = folder.join("programs");
    for name in ["kiln", "kilnd"] {
        program(name, &programs.join("amd64").join(name));
    }
    dist(&folder.join("release"), |command| {
        command.args(["--arch", "amd64", "--programs"]).arg(&programs);
    });
}

#[test]
fn guide_installs_kiln_and_kilnd_from_the_release_folder_alone() {
    let folder = TempDir::new().unwrap();
    release_folder(folder.path());
    install(&folder.path().join("release"));
}

/// Helm reads the packaged chart, and renders the same as from the folder.
#[test]
fn helm_renders_the_packaged_chart() {
    let folder = TempDir::new().unwrap();
    release::scripts(&folder.path().join("programs"));
    dist(&folder.path().join("release"), |command| {
        command.arg("--programs").arg(folder.path().join("programs"));
    });
    let template = |chart: &Path| {
        let mut command = Command::new(require(TestDep::Helm));
        command.args(["template", "kiln"]).arg(chart).args(["--set", "kamino.targetNode=node-1"]);
        run(command, Duration::from_mins(1)).success().stdout
    };
    let packaged = template(&folder.path().join(format!("release/kiln-chart-{VERSION}.tgz")));
    assert!(packaged.contains("kind: ") && packaged == template(&root().join("charts/kiln")));
}
