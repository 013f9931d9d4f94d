//! Compiles kilnd and builds its package twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn build(output: &Path) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_path_buf();
    let mut command = Command::new(env!("CARGO_BIN_EXE_package"));
    let finished = command.arg("--out").arg(output).current_dir(root).output().unwrap();
    assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
    String::from_utf8(finished.stdout).unwrap()
}

#[test]
fn real_kilnd_is_static_and_small_and_its_package_is_reproducible() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let report = build(&one);
    build(&two);
    packaging::refuse_dynamic(&one.join("kilnd")).unwrap();
    let size = fs::metadata(one.join("kilnd")).unwrap().len();
    assert!(size < 5 << 20, "{size} bytes; {report}");
    let names: Vec<String> =
        fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| Path::new(name).extension().is_some_and(|end| end == "deb")), "{names:?}");
    for name in names {
        assert!(fs::read(one.join(&name)).unwrap() == fs::read(two.join(&name)).unwrap(), "{name} differs");
    }
    // It starts without libraries, loader, PATH and environment.
    let output = Command::new(one.join("kilnd")).arg("--version").env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")), "{output:?}");
}
