//! The real static binary in an image: compiled for real, twice, and started where there is nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Makes the image with the development profile: what is shown here does not depend on optimisation, and minutes do.
fn made(output: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
    command.args(["--profile", "dev", "--output"]).arg(output).current_dir(root());
    let finished = command.output().unwrap();
    assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
    String::from_utf8(finished.stdout).unwrap()
}

fn line(report: &str, name: &str) -> String {
    report.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{report}")).trim().to_owned()
}

#[test]
fn the_real_binary_is_static_and_its_image_has_one_digest() {
    let folder = TempDir::new().unwrap();
    let report = made(&folder.path().join("one"));
    let binary = PathBuf::from(line(&report, "binary").split(' ').next().unwrap());
    oci::refuse_dynamic(&binary).unwrap();
    let bytes = fs::read(&binary).unwrap();
    let checkout = root().join("crates").display().to_string();
    assert!(
        !bytes.windows(checkout.len()).any(|window| window == checkout.as_bytes()),
        "a path of this machine is inside"
    );

    // Without a library, a loader, a PATH or a variable it starts and says its version.
    let said = Command::new(&binary).arg("--version").env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains(env!("CARGO_PKG_VERSION")), "{said:?}");

    let again = made(&folder.path().join("two"));
    assert_eq!(line(&again, "digest"), line(&report, "digest"));
    let tar = |name: &str| fs::read(folder.path().join(name).join("kiln.tar")).unwrap();
    assert!(tar("one") == tar("two"), "the archives differ");
}
