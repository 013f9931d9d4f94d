//! Makes the whole release twice, from two clones in different folders, and compares the bytes. Compiles eight programs with all optimisations,
//! which takes most of an hour on two cores.

mod release;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use packaging::refuse_dynamic;
use release::{VERSION, contents, root};
use tempfile::TempDir;
use testkit::nspawn::Blueprint;
use testkit::{TestDep, require, run};

/// Copies the files that git knows, as a clone would have them.
fn clone(to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let script = "git ls-files -z | tar --null --files-from=- -c | tar -x -C \"$1\"";
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(to).current_dir(root()).status().unwrap();
    assert!(status.success());
}

#[track_caller]
fn make(clone: &Path) -> PathBuf {
    let output = clone.join("target/dist");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--locked", "--package", "packaging", "--bin", "dist", "--", "--out"]).arg(&output);
    command.current_dir(clone).env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
    let _ = run(command, Duration::from_hours(2)).success();
    output
}

#[test]
fn two_clones_make_the_same_release_and_it_runs_without_a_compiler() {
    require(TestDep::CrossCompiler);
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("another/folder"));
    clone(&one);
    clone(&two);
    let (one, two) = (make(&one), make(&two));
    let names = |folder: &Path| contents(folder).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&two));
    for (first, second) in contents(&one).into_iter().zip(contents(&two)) {
        assert!(first == second, "{} differs", first.0);
    }
    let machine_of = |path: &Path| std::fs::read(path).unwrap()[18];
    for (architecture, machine) in [("amd64", 62), ("arm64", 183)] {
        let kilnd = one.join(format!("kilnd-{VERSION}-linux-{architecture}"));
        refuse_dynamic(&kilnd).unwrap();
        assert_eq!(machine_of(&kilnd), machine, "{architecture}");
        assert!(std::fs::metadata(&kilnd).unwrap().len() < 5 << 20, "{architecture}");
    }
    let machine = Blueprint::new("dist").shared(&one, "/release").boot();
    machine.shell(
        "cd /release && sha256sum --check --quiet SHA256SUMS && tar -xzf kiln-*-linux-amd64.tar.gz -C /usr/local",
    );
    machine.shell("dpkg --install /release/kilnd_*_amd64.deb");
    assert_eq!(machine.shell("kiln --version && kilnd version").stdout, format!("kiln {VERSION}\nkilnd {VERSION}\n"));
}
