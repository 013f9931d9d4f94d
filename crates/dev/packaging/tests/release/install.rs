//! Installs a release in a machine without a compiler, with the commands of the guide.

use std::fs;
use std::path::Path;

use testkit::guide::{Part, parts};
use testkit::nspawn::{Blueprint, Machine};

use super::{VERSION, root};

/// The search path of a shell for users.
const PATH: &str = "PATH=/usr/local/bin:$PATH";

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

/// Installs kiln and kilnd from the folder of a release, and follows the guide to its end.
#[track_caller]
pub(crate) fn install(release: &Path) {
    let machine = Blueprint::new("install").shared(release, "/release").boot();
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

    // The checksums of the guide find a damaged file.
    let check = "cd /root/copy && sha256sum --check --quiet --ignore-missing SHA256SUMS";
    let package = format!("kilnd_{VERSION}_amd64.deb");
    machine.shell(&format!("mkdir /root/copy && cp /release/{package} /release/SHA256SUMS /root/copy && {check}"));
    machine.shell(&format!("echo >>/root/copy/{package}"));
    assert_ne!(machine.run(&["sh", "-c", check]).code, Some(0));
}
