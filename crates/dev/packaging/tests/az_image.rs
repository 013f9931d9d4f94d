//! The real static binary in an image: compiled for real, put together twice, and taken apart by a reader that is not ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use testkit::{TestDep, require, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_path_buf()
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
    packaging::refuse_dynamic(&binary).unwrap();
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

    let node_binary = PathBuf::from(line(&report, "kilnd").split(' ').next().unwrap());
    packaging::refuse_dynamic(&node_binary).unwrap();
    let unpacked = umoci(&folder.path().join("one/oci"), &folder.path().join("bundle"));
    assert!(fs::read(unpacked.join("usr/local/bin/kiln")).unwrap() == bytes, "the reader sees another binary");
    let shipped = unpacked.join("usr/local/bin/kilnd");
    assert!(fs::read(&shipped).unwrap() == fs::read(&node_binary).unwrap(), "the reader sees another kilnd");
    let said = Command::new(&shipped).arg("version").env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains(env!("CARGO_PKG_VERSION")), "{said:?}");
    let roots = fs::read_to_string(unpacked.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert_eq!(roots, packaging::bundle());
}

/// Lets umoci, which checks each digest on its way, unpack an image; returns the root of its files.
fn umoci(layout: &Path, bundle: &Path) -> PathBuf {
    let mut command = Command::new(require(TestDep::Umoci));
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    command.args(["unpack", "--rootless", "--image", &image]).arg(bundle);
    let _ = run(command, Duration::from_mins(2)).success();
    let config: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["process"]["args"], serde_json::json!(["/usr/local/bin/kiln"]));
    bundle.join("rootfs")
}

#[test]
fn a_damaged_image_is_not_unpacked_by_the_reader() {
    let folder = TempDir::new().unwrap();
    let binary = folder.path().join("kiln");
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    fs::write(&binary, &header).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
    command
        .arg("--binary")
        .arg(&binary)
        .arg("--node-binary")
        .arg(&binary)
        .arg("--output")
        .arg(folder.path().join("out"));
    assert!(command.output().unwrap().status.success());
    let layout = folder.path().join("out/oci");
    let whole = umoci(&layout, &folder.path().join("whole"));
    assert_eq!(fs::read(whole.join("usr/local/bin/kiln")).unwrap(), header);

    let blobs = fs::read_dir(layout.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path());
    let layer = blobs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&layer).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&layer, bytes).unwrap();
    let mut command = Command::new(require(TestDep::Umoci));
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    command.args(["unpack", "--rootless", "--image", &image]).arg(folder.path().join("damaged"));
    assert_ne!(run(command, Duration::from_mins(2)).code, Some(0));
}
