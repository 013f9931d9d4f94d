//! Makes the whole release twice, here and in a clone in another folder, and compares the bytes. Compiles eight programs, about
//! 80 minutes of processor time.

mod release;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use packaging::refuse_dynamic;
use release::install::install;
use release::{VERSION, contents, root};
use tempfile::TempDir;
use testkit::{TestDep, require, run};

/// Clones the repository, because images are labelled with the commit, and copies uncommitted changes.
fn clone(to: &Path) {
    let script = "git clone --quiet --no-hardlinks . \"$1\" && git ls-files -z | tar --null --files-from=- -c | tar -x -C \"$1\"";
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(to).current_dir(root()).status().unwrap();
    assert!(status.success());
}

/// Runs `cargo xtask dist` in a folder with the sources. Nothing is shared with another one but downloaded crates.
#[track_caller]
fn make(sources: &Path, output: PathBuf, prepare: impl FnOnce(&mut Command)) -> PathBuf {
    let mut command = Command::new("sh");
    command.args(["-c", "umask \"${TEST_UMASK:-022}\"; exec \"$@\"", "sh"]);
    command
        .arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["xtask", "dist", "--out"])
        .arg(&output);
    command.current_dir(sources).env_remove("CARGO_TARGET_DIR").env_remove("CARGO_MANIFEST_DIR");
    prepare(&mut command);
    let _ = run(command, Duration::from_hours(4)).success();
    output
}

fn cargo_home() -> PathBuf {
    let home = || Path::new(&std::env::var_os("HOME").expect("a home")).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// Another home of cargo, with the same downloads and settings.
fn other_cargo_home(folder: &Path) -> PathBuf {
    let home = folder.join("other-cargo-home");
    std::fs::create_dir(&home).unwrap();
    for name in ["registry", "config.toml"] {
        let original = cargo_home().join(name);
        if original.exists() {
            symlink(original, home.join(name)).unwrap();
        }
    }
    home
}

/// Asserts that a program is static, for a machine (a number of ELF), and without paths of the machine that compiled it.
#[track_caller]
fn check_program(path: &Path, machine: u8, paths: &[PathBuf]) {
    refuse_dynamic(path).unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[18], machine, "{}", path.display());
    for known in paths {
        let known = known.to_str().unwrap();
        let is_found = bytes.windows(known.len()).any(|window| window == known.as_bytes());
        assert!(!is_found, "{} contains `{known}`", path.display());
    }
}

/// Runs a program without its machine's environment. arm64 is emulated.
#[track_caller]
fn output(architecture: &str, program: &Path, argument: &str) -> String {
    let mut command = if architecture == "arm64" {
        let mut command = Command::new(require(TestDep::Arm64Emulator));
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg(argument).env_clear();
    run(command, Duration::from_mins(1)).success().stdout
}

#[test]
fn clone_makes_the_same_release_and_it_runs_without_a_compiler() {
    require(TestDep::CrossCompiler);
    require(TestDep::Arm64Emulator);
    let folder = TempDir::new().unwrap();
    let two = folder.path().join("another/folder");
    clone(&two);
    let home = other_cargo_home(folder.path());
    let one = make(&root(), folder.path().join("one"), |_| {});
    let two = make(&two, two.join("target/dist"), |command| {
        command.env("CARGO_HOME", &home).env("TEST_UMASK", "077").env("TZ", "Pacific/Chatham").env("LC_ALL", "C");
    });
    let names = |folder: &Path| contents(folder).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&two));
    let pairs = contents(&one).into_iter().zip(contents(&two));
    let differing: Vec<String> = pairs.filter(|(first, second)| first != second).map(|(first, _)| first.0).collect();
    assert!(differing.is_empty(), "{differing:?} differ");
    let paths = [folder.path().to_owned(), cargo_home(), root()];
    for (architecture, machine) in [("amd64", 62), ("arm64", 183)] {
        let platform = format!("{VERSION}-linux-{architecture}");
        let kilnd = one.join(format!("kilnd-{platform}"));
        check_program(&kilnd, machine, &paths);
        assert!(std::fs::metadata(&kilnd).unwrap().len() < 5 << 20, "{architecture}");
        assert_eq!(output(architecture, &kilnd, "version"), format!("kilnd {VERSION}\n"));

        let unpacked = folder.path().join(architecture);
        std::fs::create_dir(&unpacked).unwrap();
        let tarball = one.join(format!("kiln-{platform}.tar.gz"));
        assert!(Command::new("tar").arg("-xzf").arg(tarball).arg("-C").arg(&unpacked).status().unwrap().success());
        let kiln = unpacked.join("bin/kiln");
        check_program(&kiln, machine, &paths);
        assert_eq!(output(architecture, &kiln, "--version"), format!("kiln {VERSION}\n"));
    }
    install(&one);
}
