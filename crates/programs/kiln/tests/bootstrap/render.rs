//! Tests of `kiln bootstrap render`.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use kiln_aks_formats::from_base64;

use crate::fixture::{Folder, SOURCES, TOKEN, golden};

const TARGETS: [&str; 9] = [
    "node-config",
    "node-config-custom-data",
    "nbv-script",
    "aks-node-config",
    "env",
    "custom-data",
    "aks-node-config-custom-data",
    "kubeadm",
    "record",
];

#[test]
fn rendering_is_reproducible() {
    let (one, other) = (Folder::new(), Folder::new());
    for target in TARGETS {
        for form in ["text", "json"] {
            let arguments = ["render", "--to", target, "--output", form];
            let first = one.with_sources(&arguments).success().stdout;
            assert_eq!(first, other.with_sources(&arguments).success().stdout, "{target}");
            assert!(!first.is_empty(), "{target}");
        }
    }
}

#[test]
fn example_renders_to_the_golden_files() {
    let folder = Folder::new();
    for (target, name) in [
        ("node-config", "node-config.json"),
        ("nbv-script", "nbv-script.sh"),
        ("aks-node-config", "aks-node-config.json"),
        ("record", "record.json"),
    ] {
        golden(name, &folder.with_sources(&["render", "--to", target]).success().stdout);
    }
}

#[test]
fn custom_data_is_the_script_in_base64() {
    let folder = Folder::new();
    let script = folder.with_sources(&["render", "--to", "nbv-script"]).success().stdout;
    let data = folder.with_sources(&["render", "--to", "custom-data"]).success().stdout;
    assert_eq!(from_base64(data.trim()).expect("base64"), script.as_bytes());
    let json = folder.with_sources(&["render", "--to", "custom-data", "--output", "json"]).success().json();
    assert_eq!((json["target"].as_str(), json["content"].as_str()), (Some("custom-data"), Some(data.trim())));
}

#[test]
fn token_is_a_separate_part_of_node_config_custom_data() {
    let folder = Folder::new();
    let document = folder.with_sources(&["render", "--to", "node-config"]).success().stdout;
    assert!(!document.contains(TOKEN));
    let render = ["render", "--to", "node-config-custom-data"];
    let data = folder.with_sources(&render).success().stdout;
    let message = String::from_utf8(from_base64(data.trim()).expect("base64")).expect("text");
    let parts: Vec<&str> = message.split("--==kiln=custom=data=boundary==").skip(1).collect();
    let [first, second, "--\n"] = parts[..] else { panic!("{} parts", parts.len()) };
    let (head, body) = first.split_once("\n\n").expect("a head");
    assert_eq!(
        (head.trim(), body),
        ("Content-Type: application/vnd.kiln.node-config+json; charset=\"utf-8\"", &*document)
    );
    let (head, body) = second.split_once("\n\n").expect("a head");
    assert_eq!((head.trim(), body.trim()), ("Content-Type: application/vnd.kiln.credential; charset=\"utf-8\"", TOKEN));

    // Other credential sources need no token, so the custom data contains none.
    let identity = [&render[..], &["--set", "credentialFrom=managedIdentity"]].concat();
    let message = from_base64(folder.with_sources(&identity).success().stdout.trim()).expect("base64");
    let message = String::from_utf8(message).expect("text");
    assert!(!message.contains(TOKEN) && !message.contains("vnd.kiln.credential"));
    folder.replace("settings.yaml", &format!("bootstrapToken: {TOKEN}\n"), "");
    let without = folder.with_sources(&render);
    assert!(without.code == Some(2) && without.stderr.contains("bootstrapToken"), "{without}");
}

#[test]
fn environment_is_a_json_object_or_bash_assignments() {
    let folder = Folder::new();
    folder.replace("settings.yaml", "networkPolicy: cilium", "networkPolicy: \"it's $HOME `id` \\\"x\\\"\\n#EOF ö\"");
    let object = folder.with_sources(&["render", "--to", "env", "--output", "json"]).success();
    let object: BTreeMap<String, String> = serde_json::from_str(&object.stdout).expect("names and texts");
    assert_eq!(object.len(), 128);
    assert_eq!(object["NETWORK_POLICY"], "it's $HOME `id` \"x\"\n#EOF ö");
    folder
        .with_sources(&["render", "--to", "env", "--out", "env.sh"])
        .success()
        .stdout
        .is_empty()
        .then_some(())
        .unwrap();
    let bash = std::process::Command::new("/bin/bash")
        .args(["-c", "set -a; . ./env.sh; exec env -0"])
        .current_dir(folder.path("."))
        .env_clear()
        .output()
        .expect("bash");
    let read = String::from_utf8(bash.stdout).expect("UTF-8");
    let mut read: BTreeMap<&str, &str> = read.split('\0').filter_map(|entry| entry.split_once('=')).collect();
    for shell_variable in ["PWD", "OLDPWD", "SHLVL", "_", "PATH"] {
        read.remove(shell_variable);
    }
    assert_eq!(read, object.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect());
}

#[test]
fn output_file_always_has_mode_0600() {
    let folder = Folder::new();
    folder.write("out", "old");
    let set =
        |mode| std::fs::set_permissions(folder.path("out"), std::fs::Permissions::from_mode(mode)).expect("a mode");
    for before in [0o666, 0o644, 0o400] {
        set(before);
        let finished = folder.with_sources(&["render", "--to", "custom-data", "--out", "out"]).success();
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
        let mode = std::fs::metadata(folder.path("out")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
    let names: Vec<_> =
        std::fs::read_dir(folder.path(".")).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 4, "no temporary file remains: {names:?}");
}

#[test]
fn failed_render_does_not_change_the_file() {
    let folder = Folder::new();
    folder.write("out", "old");
    let finished = folder.run(&["render", "--to", "custom-data", "--set", "location=eastus", "--out", "out"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(
        finished.stderr.contains("required fields are not set: `tenantId` (allowed sources: environment, settings)"),
        "{finished}"
    );
    assert_eq!(folder.read("out"), "old");
    let finished = folder.with_sources(&["render", "--to", "custom-data", "--out", "/dev/null"]);
    assert!(finished.code == Some(1) && finished.stderr.contains("not a regular file"), "{finished}");
}

#[test]
fn arguments_override_files_which_override_environment_variables() {
    let folder = Folder::new();
    let location = |environment: &[(&str, &str)], more: &[&str]| {
        let arguments = [&["render", "--to", "env", "--output", "json"], &SOURCES[..], more].concat();
        folder.run_with(environment, &arguments).success().json()["LOCATION"].as_str().map(str::to_owned)
    };
    assert_eq!(location(&[("LOCATION", "westeurope")], &[]).as_deref(), Some("eastus"));
    assert_eq!(location(&[("LOCATION", "westeurope")], &["--set", "location=uksouth"]).as_deref(), Some("uksouth"));
    folder.replace("settings.yaml", "location: eastus\n", "");
    assert_eq!(location(&[("LOCATION", "westeurope")], &[]).as_deref(), Some("westeurope"));
}

#[test]
fn claim_overrides_its_pool_and_selects_the_image_by_architecture() {
    let folder = Folder::new();
    folder.write(
        "claim.yaml",
        "kind: NodeClaim\nmetadata: {name: general-x, labels: {team: payments}}\nspec:\n  requirements:\n  - {key: kubernetes.io/arch, operator: In, values: [arm64]}\n",
    );
    folder.replace(
        "node-class.yaml",
        "    - id: /Comm",
        "    - id: /CommunityGalleries/g/images/arm/versions/1.0.0\n      requirements:\n        - {key: kubernetes.io/arch, operator: In, values: [arm64]}\n    - id: /Comm",
    );
    let image = |more: &[&str]| {
        let finished = folder.with_sources(&[&["explain", "imageId", "--output", "json"], more].concat()).success();
        finished.json()["value"].as_str().unwrap_or_default().to_owned()
    };
    assert!(image(&[]).contains("2204gen2containerd"));
    assert_eq!(image(&["--node-claim", "claim.yaml"]), "/CommunityGalleries/g/images/arm/versions/1.0.0");
    assert_eq!(image(&["--set", "arch=arm64"]), "/CommunityGalleries/g/images/arm/versions/1.0.0");
    let labels =
        folder.with_sources(&["explain", "labels", "--node-claim", "claim.yaml", "--output", "json"]).success();
    assert_eq!(labels.json()["value"]["team"], "payments");
}

#[test]
fn aks_node_config_renders_to_node_config_and_custom_data() {
    let folder = Folder::new();
    let rendered = folder.with_sources(&["render", "--to", "aks-node-config", "--out", "anc.json"]).success();
    assert_eq!(rendered.stdout, "");
    let from = |to: &str| folder.run(&["render", "--aks-node-config", "anc.json", "--to", to]);
    assert_eq!(from("aks-node-config").success().stdout, folder.read("anc.json"));
    let config = from("node-config").success();
    assert!(config.stdout.contains("\"maxPods\"") || config.stdout.contains("\"--max-pods\":\"60\""), "{config}");
    assert!(!config.stdout.contains(TOKEN));
    let data = from("custom-data").success().stdout;
    let mime = String::from_utf8(from_base64(data.trim()).expect("base64")).expect("text");
    assert!(mime.starts_with("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="), "{mime}");
    let rejected = from("nbv-script");
    assert!(rejected.code == Some(2) && rejected.stderr.contains("render `custom-data`"), "{rejected}");
}

#[test]
fn missing_input_is_an_error_with_a_hint() {
    let finished = Folder::new().run(&["render", "--to", "env"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.stderr.contains("hint: pass `--settings`"), "{finished}");
}
