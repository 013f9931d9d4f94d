//! Installs kiln and kilnd from the folder of a release alone, with the commands of the guide, in a machine without a compiler.
//!
//! The programs have the profile `dev`, because a release takes minutes to compile; `az_dist` does the same with the real ones.

mod release;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use release::{VERSION, dist, program, root};
use tempfile::TempDir;
use testkit::guide::{Part, parts};
use testkit::nspawn::{Blueprint, Machine};
use testkit::{TestDep, require, run};

/// The search path of a shell for users.
const PATH: &str = "PATH=/usr/local/bin:$PATH";

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

/// Runs the commands of the guide in the folder of the release. Returns how many there are.
#[track_caller]
fn follow_guide(machine: &Machine) -> usize {
    let page = fs::read_to_string(root().join("docs/guides/install.md")).unwrap();
    let mut count = 0;
    for part in parts(&page) {
        let Part::Typed { command, prints } = part else { continue };
        let finished = machine.run(&["sh", "-euc", &format!("{PATH}; cd /release; {command}")]).success();
        // The output of other programs is not part of the guide.
        assert!(
            prints.is_empty() || finished.stdout == prints,
            "{command}printed\n{}\nexpected\n{prints}",
            finished.stdout
        );
        count += 1;
    }
    count
}

#[test]
fn guide_installs_kiln_and_kilnd_from_the_release_folder_alone() {
    let folder = TempDir::new().unwrap();
    release_folder(folder.path());
    let machine = Blueprint::new("install").shared(&folder.path().join("release"), "/release").boot();
    for tool in ["cc", "gcc", "ld", "cargo", "rustc"] {
        let found = machine.run(&["sh", "-c", &format!("command -v {tool}")]);
        assert_ne!(found.code, Some(0), "the machine has a compiler: {found}");
    }
    assert!(follow_guide(&machine) >= 8);
    // kiln works, with its documents; kilnd was purged by the last command.
    let version = machine.shell(&format!("{PATH}; kiln --version")).stdout;
    assert_eq!(version.trim(), format!("kiln {VERSION}"));
    machine.shell(
        "test -s /usr/local/share/man/man1/kiln.1 && grep -q kiln /usr/local/share/bash-completion/completions/kiln",
    );
    assert!(!machine.exists("/usr/bin/kilnd") && !machine.exists("/usr/lib/kiln/units"));
    assert_eq!(machine.shell("find /etc/systemd -lname '*kiln*'").stdout, "");

    // One damaged file.
    let damaged = format!("cp -r /release /root/release && cd /root/release && echo >>kilnd_{VERSION}_amd64.deb");
    machine.shell(&damaged);
    assert_ne!(machine.run(&["sh", "-c", "cd /root/release && sha256sum --check --quiet SHA256SUMS"]).code, Some(0));
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
