//! The files of a release, made from scripts in place of the programs.

mod release;

use std::fs;
use std::process::Command;

use packaging::dist::documents::Documents;
use packaging::dist::{CHECKSUMS, Inputs, Programs, files};
use packaging::{Architecture, Digest};
use release::{VERSION, contents, dist, root, scripts};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn release_has_every_file_and_its_checksums_are_right() {
    let folder = TempDir::new().unwrap();
    scripts(&folder.path().join("programs"));
    let output = folder.path().join("out");
    dist(&output, |command| {
        command.arg("--programs").arg(folder.path().join("programs"));
    });
    let names: Vec<String> = contents(&output).into_iter().map(|(name, ..)| name).collect();
    let mut expected: Vec<String> = ["amd64", "arm64"]
        .into_iter()
        .flat_map(|arch| {
            [
                format!("kiln-{VERSION}-linux-{arch}.tar.gz"),
                format!("kiln-image-{VERSION}-linux-{arch}.tar"),
                format!("kilnd-{VERSION}-linux-{arch}"),
                format!("kilnd_{VERSION}_{arch}.deb"),
            ]
        })
        .collect();
    expected.extend(["x86_64", "aarch64"].map(|arch| format!("kilnd-{VERSION}-1.{arch}.rpm")));
    expected.extend([
        format!("kiln-{VERSION}.cdx.json"),
        format!("kiln-chart-{VERSION}.tgz"),
        format!("kiln-image-{VERSION}.oci.tar"),
        CHECKSUMS.to_owned(),
    ]);
    expected.sort();
    assert_eq!(names, expected);

    let checked = Command::new("sha256sum").args(["--check", CHECKSUMS]).current_dir(&output).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert_eq!(String::from_utf8_lossy(&checked.stdout).lines().count(), expected.len() - 1);

    let listed =
        Command::new("tar").arg("-tzf").arg(output.join(format!("kiln-{VERSION}-linux-arm64.tar.gz"))).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    for path in [
        "bin/kiln",
        "share/bash-completion/completions/kiln",
        "share/fish/vendor_completions.d/kiln.fish",
        "share/zsh/site-functions/_kiln",
        "share/man/man1/kiln.1",
    ] {
        assert!(listed.lines().any(|line| line == path), "{path} is not in {listed}");
    }
    let package = output.join(format!("kilnd_{VERSION}_amd64.deb"));
    let listed = Command::new("dpkg-deb").arg("--contents").arg(package).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains(" usr/share/man/man8/kilnd.8"), "{listed:?}");
}

/// Two machines differ in their folders, umask, time zone, time and file times.
#[test]
fn release_does_not_depend_on_folder_umask_time_zone_or_times() {
    let folder = TempDir::new().unwrap();
    let programs = folder.path().join("programs");
    scripts(&programs);
    let (one, two) = (folder.path().join("one"), folder.path().join("deeper/two"));
    dist(&one, |command| {
        command.arg("--programs").arg(&programs);
    });
    fs::create_dir_all(&two).unwrap();
    let script = "umask 077; exec \"$@\"";
    let finished = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_dist"), "--out"])
        .arg(&two)
        .arg("--programs")
        .arg(&programs)
        .current_dir("/")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .env("TZ", "Pacific/Chatham")
        .env("LC_ALL", "tr_TR.UTF-8")
        .output()
        .unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert_eq!(contents(&one).len(), contents(&two).len());
    for (one, two) in contents(&one).into_iter().zip(contents(&two)) {
        assert!(one == two, "{} differs", one.0);
    }

    // Another clone of the sources, with other modes and times.
    let clone = folder.path().join("clone");
    fs::create_dir(&clone).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args(["LICENSE", "units", "charts"].map(|name| root().join(name)))
        .arg(&clone)
        .status();
    assert!(copied.unwrap().success());
    let changed = Command::new("sh")
        .args(["-c", "chmod -R go-rwx . && find . -exec touch -d 2001-01-01 {} +"])
        .current_dir(&clone)
        .status();
    assert!(changed.unwrap().success());
    let inputs = Inputs {
        version: VERSION.to_owned(),
        revision: None,
        programs: vec![Programs {
            architecture: Architecture::Amd64,
            kiln: b"kiln".to_vec(),
            kilnd: b"kilnd".to_vec(),
        }],
        documents: Documents::default(),
        sbom: "{}".to_owned(),
    };
    assert!(files(&root(), &inputs).unwrap() == files(&clone, &inputs).unwrap());
    // The comparison can fail.
    fs::write(clone.join("units/kiln-config.service"), "[Unit]\n").unwrap();
    assert!(files(&root(), &inputs).unwrap() != files(&clone, &inputs).unwrap());
}

#[test]
fn image_for_both_architectures_has_one_tag_and_complete_blobs() {
    let folder = TempDir::new().unwrap();
    let programs = folder.path().join("programs");
    scripts(&programs);
    let output = folder.path().join("out");
    dist(&output, |command| {
        command.arg("--programs").arg(&programs);
    });
    let layout = folder.path().join("layout");
    fs::create_dir(&layout).unwrap();
    let archive = output.join(format!("kiln-image-{VERSION}.oci.tar"));
    assert!(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&layout).status().unwrap().success());
    let blob = |descriptor: &Value| -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap();
        let bytes = fs::read(layout.join("blobs/sha256").join(digest.trim_start_matches("sha256:"))).unwrap();
        assert_eq!(Digest::compute(&bytes).to_string(), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    };
    let json = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let index = json(&fs::read(layout.join("index.json")).unwrap());
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], VERSION);
    let inner = json(&blob(&index["manifests"][0]));
    let mut platforms = Vec::new();
    for descriptor in inner["manifests"].as_array().unwrap() {
        platforms.push(descriptor["platform"]["architecture"].as_str().unwrap().to_owned());
        let manifest = json(&blob(descriptor));
        assert_eq!(json(&blob(&manifest["config"]))["architecture"], descriptor["platform"]["architecture"]);
        assert!(!blob(&manifest["layers"][0]).is_empty());
    }
    assert_eq!(platforms, ["amd64", "arm64"]);
}

#[test]
fn bill_of_materials_lists_the_crates_of_both_programs_without_paths() {
    let text =
        packaging::dist::sbom::of_workspace(&root(), &[Architecture::Amd64, Architecture::Arm64], VERSION).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let components = document["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|one| one["name"] == name);
    for name in ["kiln", "kilnd", "ring", "rustls", "kube", "lexopt"] {
        assert!(find(name).is_some(), "{name} is missing");
    }
    for name in ["proptest", "testkit", "packaging"] {
        assert!(find(name).is_none(), "{name} is only used by tests");
    }
    let ring = find("ring").unwrap();
    assert_eq!(ring["hashes"][0]["content"].as_str().unwrap().len(), 64);
    let unlicensed: Vec<_> =
        components.iter().filter(|one| one["licenses"].is_null()).map(|one| &one["name"]).collect();
    assert_eq!(unlicensed, Vec::<&Value>::new());
    let path = root().display().to_string();
    assert!(!text.contains(&path) && !text.contains("registry+"), "the document contains a path or a registry");
    let known: Vec<&Value> = components.iter().map(|one| &one["bom-ref"]).collect();
    for dependency in document["dependencies"].as_array().unwrap() {
        assert!(dependency["dependsOn"].as_array().unwrap().iter().all(|one| known.contains(&one)), "{dependency}");
    }
}
