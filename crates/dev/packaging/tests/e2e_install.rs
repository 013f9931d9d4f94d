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
        let finished = machine.run(&["sh", "-euc", &format!("cd /release; {command}")]).success();
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
    let version = machine.shell("kiln --version").stdout;
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

/// Debian's rpm on the root of a running machine: its scriptlets run there, with the machine's systemd.
#[test]
fn rpm_of_a_release_is_inert_and_its_removal_disables_kilnd() {
    let folder = TempDir::new().unwrap();
    release_folder(folder.path());
    let service = |name: &str| format!("[Service]\nExecStart=/bin/sleep infinity\nEnvironment=NAME={name}\n");
    let machine = Blueprint::new("rpm")
        .file("/usr/lib/systemd/system/kubelet.service", service("kubelet"))
        .file("/usr/lib/systemd/system/containerd.service", service("containerd"))
        .boot();
    machine.shell("systemctl start kubelet containerd");
    let leader = machine.leader().expect("a running machine");
    let rpm = |arguments: &[&str], last: &Path| {
        let mut command = Command::new(require(TestDep::Rpm));
        // Nothing else in this root is known to rpm, not even /bin/sh.
        command.arg(format!("--root=/proc/{leader}/root")).arg("--nodeps").args(arguments).arg(last);
        run(command, Duration::from_mins(1)).success()
    };
    let files = || {
        machine.shell("find /etc/systemd /run/systemd/system.control -mindepth 1 -printf '%p %l\\n' 2>/dev/null | sort || true").stdout
    };
    let processes = || ["kubelet", "containerd"].map(|unit| machine.property(&format!("{unit}.service"), "MainPID"));
    let (before, running) = (files(), processes());
    let file = folder.path().join(format!("release/kilnd-{VERSION}-1.x86_64.rpm"));
    rpm(&["--install"], &file);
    assert_eq!((files(), processes()), (before.clone(), running.clone()));
    machine.shell("kilnd enable --yes");
    assert_ne!(files(), before);
    rpm(&["--upgrade", "--force"], &file);
    assert!(machine.exists("/etc/systemd/system/kiln-config.service"), "an upgrade keeps kilnd enabled");
    assert_eq!(processes(), running);

    // A removal that cannot disable kilnd keeps the package: the gate would stay closed for ever.
    machine.shell("mkdir -p /usr/lib/systemd/system && touch /usr/lib/systemd/system/kiln-config.service");
    let mut refused = Command::new(require(TestDep::Rpm));
    refused.arg(format!("--root=/proc/{leader}/root")).args(["--erase", "kilnd"]);
    assert_ne!(run(refused, Duration::from_mins(1)).code, Some(0));
    assert!(machine.exists("/usr/bin/kilnd"));
    machine.shell("rm /usr/lib/systemd/system/kiln-config.service");

    rpm(&["--erase"], Path::new("kilnd"));
    assert_eq!((files(), processes()), (before, running));
    assert!(!machine.exists("/usr/bin/kilnd") && !machine.exists("/usr/lib/kiln"));
    machine.shell("systemctl restart kubelet containerd && systemctl is-active kubelet containerd");
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
