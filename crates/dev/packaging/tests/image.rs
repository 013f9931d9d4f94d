//! The content of an image with a placeholder program. Every digest must match its bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use packaging::{Architecture, Content, Digest, Image, archive, bundle, write_layout};
use serde_json::{Value, json};
use tempfile::TempDir;

fn content(binary: &[u8]) -> Content {
    Content {
        binary: binary.to_vec(),
        node_binary: b"daemon".to_vec(),
        architecture: Architecture::Amd64,
        version: "1.2.3".to_owned(),
        revision: Some("abcdef".to_owned()),
    }
}

/// The smallest ELF header of a static program.
fn static_program() -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header
}

/// All files below a folder, by relative path.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

/// The files of an archive, with their modes.
fn unpacked(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let path = entry.path().unwrap().display().to_string();
        files.insert(path, (entry.header().mode().unwrap(), content));
    }
    files
}

/// Returns the bytes of a descriptor after checking size and digest.
#[track_caller]
fn follow(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let name = format!("blobs/{}", digest.replace(':', "/"));
    let bytes = files.get(&name).unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(descriptor["size"], bytes.len());
    assert_eq!(digest, Digest::compute(bytes).to_string());
    bytes.clone()
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn gunzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

#[test]
fn layout_contains_the_blobs_of_its_descriptors_and_nothing_else() {
    let image = Image::new(&content(b"program")).unwrap();
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("oci");
    fs::create_dir(&layout).unwrap();
    fs::write(layout.join("from-an-older-image"), "").unwrap();
    write_layout(&image, &layout).unwrap();
    let files = tree(&layout);
    assert_eq!(parsed(&files["oci-layout"]), json!({ "imageLayoutVersion": "1.0.0" }));
    let index = parsed(&files["index.json"]);
    let entry = &index["manifests"][0];
    assert_eq!(entry["platform"], json!({ "architecture": "amd64", "os": "linux" }));
    assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
    let manifest = parsed(&follow(&files, entry));
    let config = parsed(&follow(&files, &manifest["config"]));
    let layer = gunzipped(&follow(&files, &manifest["layers"][0]));
    assert_eq!(config["rootfs"]["diff_ids"], json!([Digest::compute(&layer).to_string()]));
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    assert_eq!(files.len(), 5, "{:?}", files.keys());
}

#[test]
fn image_runs_kiln_as_an_unprivileged_user_and_has_root_certificates() {
    let image = Image::new(&content(b"program")).unwrap();
    let config = parsed(&image.config.bytes);
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/local/bin/kiln"]));
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3");
    assert_eq!(config["config"]["Labels"]["org.opencontainers.image.revision"], "abcdef");
    let files = unpacked(&gunzipped(&image.layer.bytes));
    assert_eq!(files["usr/local/bin/kiln"], (0o755, b"program".to_vec()));
    assert_eq!(files["usr/local/bin/kilnd"], (0o755, b"daemon".to_vec()), "for pods on nodes");
    assert_eq!(files["etc/ssl/certs/ca-certificates.crt"], (0o644, bundle().into_bytes()));
    assert!(String::from_utf8_lossy(&files["etc/passwd"].1).contains("kiln:x:65532:65532:"));
    let folders = ["etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/"];
    assert!(folders.iter().all(|folder| files[*folder].0 == 0o755));
    assert_eq!(files.len(), folders.len() + 5, "{:?}", files.keys());
}

#[test]
fn builds_are_reproducible_and_depend_on_the_program() {
    let (one, two) = (Image::new(&content(b"program")).unwrap(), Image::new(&content(b"program")).unwrap());
    assert_eq!(one, two);
    assert_eq!(archive(&one).unwrap(), archive(&two).unwrap());
    let other = Image::new(&content(b"Program")).unwrap();
    assert_ne!(one.manifest.digest, other.manifest.digest);
}

#[test]
fn archive_is_a_layout_with_a_docker_manifest() {
    let image = Image::new(&content(b"program")).unwrap();
    let files: BTreeMap<_, _> =
        unpacked(&archive(&image).unwrap()).into_iter().map(|(path, (_, content))| (path, content)).collect();
    let docker = parsed(&files["manifest.json"]);
    assert_eq!(docker[0]["RepoTags"], json!(["kiln:1.2.3"]));
    assert_eq!(files[docker[0]["Config"].as_str().unwrap()], image.config.bytes);
    assert_eq!(files[docker[0]["Layers"][0].as_str().unwrap()], image.layer.bytes);
    follow(&files, &parsed(&files["index.json"])["manifests"][0]);
}

#[test]
fn command_builds_the_same_image_twice_and_prints_its_digest() {
    let folder = TempDir::new().unwrap();
    let binary = folder.path().join("kiln");
    fs::write(&binary, static_program()).unwrap();
    let make = |name: &str| {
        let output = folder.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
        command.arg("--binary").arg(&binary).arg("--node-binary").arg(&binary).arg("--out").arg(&output);
        let finished = command.output().unwrap();
        assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
        let text = String::from_utf8(finished.stdout).unwrap();
        let digest = text.lines().find_map(|line| line.strip_prefix("digest   ")).unwrap().to_owned();
        (tree(&output), digest)
    };
    let (one, digest) = make("one");
    assert_eq!(make("two"), (one.clone(), digest.clone()));
    assert_eq!(parsed(&one["oci/index.json"])["manifests"][0]["digest"], digest);
    assert!(one.contains_key("kiln.tar"));
}

#[test]
fn dynamic_program_is_rejected() {
    let folder = TempDir::new().unwrap();
    let (output, fine) = (folder.path().join("out"), folder.path().join("fine"));
    fs::write(&fine, static_program()).unwrap();
    let dynamic = Path::new(env!("CARGO_BIN_EXE_image"));
    for (binary, node_binary) in [(dynamic, fine.as_path()), (fine.as_path(), dynamic)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_image"));
        command.arg("--binary").arg(binary).arg("--node-binary").arg(node_binary).arg("--out").arg(&output);
        let finished = command.output().unwrap();
        let message = String::from_utf8_lossy(&finished.stderr).into_owned();
        assert_eq!(finished.status.code(), Some(1), "{message}");
        assert!(message.contains("is not static"), "{message}");
        assert!(!output.exists());
    }
}
