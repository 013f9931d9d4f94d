//! Compiles the static binaries, builds the image twice, and unpacks it with umoci.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use testkit::{TestDep, require, run};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap().to_path_buf()
}

/// Builds the image with the profile `dev`, which saves minutes: optimisation makes no difference for these tests.
fn build(output: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
    command.args(["--profile", "dev", "--out"]).arg(output).current_dir(root());
    let finished = command.output().unwrap();
    assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
    String::from_utf8(finished.stdout).unwrap()
}

fn line(report: &str, name: &str) -> String {
    report.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{report}")).trim().to_owned()
}

#[test]
fn real_binary_is_static_and_its_image_is_reproducible() {
    let folder = TempDir::new().unwrap();
    let report = build(&folder.path().join("one"));
    let binary = PathBuf::from(line(&report, "binary").split(' ').next().unwrap());
    packaging::refuse_dynamic(&binary).unwrap();
    let bytes = fs::read(&binary).unwrap();
    let checkout = root().join("crates").display().to_string();
    assert!(
        !bytes.windows(checkout.len()).any(|window| window == checkout.as_bytes()),
        "the binary contains a path of this machine"
    );

    // It starts without libraries, loader, PATH and environment.
    let output = Command::new(&binary).arg("--version").env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")), "{output:?}");

    let again = build(&folder.path().join("two"));
    assert_eq!(line(&again, "digest"), line(&report, "digest"));
    let tar = |name: &str| fs::read(folder.path().join(name).join("kiln.tar")).unwrap();
    assert!(tar("one") == tar("two"), "the archives differ");

    let node_binary = PathBuf::from(line(&report, "kilnd").split(' ').next().unwrap());
    packaging::refuse_dynamic(&node_binary).unwrap();
    let unpacked = unpack(&folder.path().join("one/oci"), &folder.path().join("bundle"));
    assert!(fs::read(unpacked.join("usr/local/bin/kiln")).unwrap() == bytes, "umoci unpacked another kiln");
    let shipped = unpacked.join("usr/local/bin/kilnd");
    assert!(fs::read(&shipped).unwrap() == fs::read(&node_binary).unwrap(), "umoci unpacked another kilnd");
    let output = Command::new(&shipped).arg("version").env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")), "{output:?}");
    let roots = fs::read_to_string(unpacked.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert_eq!(roots, packaging::bundle());
}

/// Unpacks an image with umoci, which checks all digests. Returns the root folder.
fn unpack(layout: &Path, bundle: &Path) -> PathBuf {
    let mut command = Command::new(require(TestDep::Umoci));
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    command.args(["unpack", "--rootless", "--image", &image]).arg(bundle);
    let _ = run(command, Duration::from_mins(2)).success();
    let config: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["process"]["args"], serde_json::json!(["/usr/local/bin/kiln"]));
    bundle.join("rootfs")
}

#[test]
fn umoci_rejects_a_damaged_image() {
    let folder = TempDir::new().unwrap();
    let binary = folder.path().join("kiln");
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    fs::write(&binary, &header).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
    command.arg("--binary").arg(&binary).arg("--node-binary").arg(&binary).arg("--out").arg(folder.path().join("out"));
    assert!(command.output().unwrap().status.success());
    let layout = folder.path().join("out/oci");
    let whole = unpack(&layout, &folder.path().join("whole"));
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
