//! Plants secrets in every input of a node, and searches everything that other users can read.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kilnd::apply::{Consent, apply};
use serde_json::json;
use support::documents::document;
use support::program::kilnd_on;
use support::world::{candidate, folder, image, process};

const TOKEN: &str = "abcdef.0123456789abcdef";
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0LWtleS1ieXRlcw==\n-----END EC PRIVATE KEY-----";
const PASSWORD: &str = "hunter2-of-the-first-user";
const SCRIPT: &str = "swordfish-in-another-part";

/// A characteristic part of each secret.
const MARKERS: [&str; 4] = ["0123456789abcdef", "c2VjcmV0LWtleS1ieXRlcw", "hunter2", "swordfish"];

fn kilnd(root: &Path, args: &[&str]) -> Output {
    let mut command = kilnd_on(root);
    command.args(["--time-scale", "1000"]).args(args).output().expect("kilnd runs")
}

fn assert_clean(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for marker in MARKERS {
        assert!(!text.contains(marker), "{what} contains `{marker}`: {text}");
    }
}

/// Asserts that no readable file contains a marker, except planted ones. Returns the number of private files that contain one.
fn assert_private(root: &Path, folder: &Path) -> usize {
    let mut private = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("metadata");
        if metadata.is_dir() {
            private += assert_private(root, &path);
        } else if metadata.is_file() {
            let text = String::from_utf8_lossy(&fs::read(&path).expect("read")).into_owned();
            let has_secret = MARKERS.iter().any(|marker| text.contains(marker));
            let mode = metadata.permissions().mode() & 0o777;
            let planted = ["cd", "credentials", "planted"].iter().any(|place| path.starts_with(root.join(place)));
            let is_private = matches!(mode, 0o600 | 0o400);
            assert!(!has_secret || is_private || planted, "{} has mode {mode:o} and contains a secret", path.display());
            private += usize::from(has_secret && !planted);
        }
    }
    private
}

fn private_file(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Writes provisioning media with a password, a script that contains a secret, and a document.
fn write_media(root: &Path, document: &str) {
    write_media_with(root, document, "");
}

/// The same, with another part.
fn write_media_with(root: &Path, document: &str, part: &str) {
    let data = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/x-shellscript\n\n\
         #!/bin/sh\nlogin {SCRIPT}\n--b\nContent-Type: {}\n\n{document}\n{part}--b--\n",
        kiln_node_config::media::NODE_CONFIG
    );
    let xml = format!(
        "<Environment><ProvisioningSection><LinuxProvisioningConfigurationSet><HostName>node-7</HostName>\
         <UserName>azureuser</UserName><UserPassword>{PASSWORD}</UserPassword><CustomData>{}</CustomData>\
         </LinuxProvisioningConfigurationSet></ProvisioningSection></Environment>",
        STANDARD.encode(data)
    );
    fs::create_dir_all(root.join("cd")).expect("a folder");
    fs::write(root.join("cd/ovf-env.xml"), xml).expect("written");
}

fn assert_outputs_clean(root: &Path, outputs: &[Output]) {
    for output in outputs {
        assert_clean("standard output", &output.stdout);
        assert_clean("the journal", &output.stderr);
    }
    for args in [&["status"][..], &["status", "--output", "json"], &["rollback"]] {
        let output = kilnd(root, args);
        assert_clean("standard output", &output.stdout);
        assert_clean("the journal", &output.stderr);
    }
    for path in ["run/kiln/status.json", "var/lib/kiln/state.json", "run/kiln/lock"] {
        assert_clean(path, &fs::read(root.join(path)).unwrap_or_default());
    }
}

#[test]
fn credentials_of_every_kind_are_only_in_private_files() {
    let certificate = format!("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n{KEY}\n");
    let kubeconfig = format!("apiVersion: v1\nkind: Config\nclusters: []\nusers: [{{user: {{token: {TOKEN}}}}}]\n");
    for (kind, content) in [
        ("file", TOKEN),
        ("file", &certificate),
        ("file", &kubeconfig),
        ("systemCredential", TOKEN),
        ("customData", TOKEN),
        ("customData", &certificate),
    ] {
        let folder = folder();
        let root = folder.path();
        image(root);
        let (name, part) = match kind {
            "file" => ("/etc/join", String::new()),
            "systemCredential" => ("join", String::new()),
            _ => ("", format!("--b\nContent-Type: {}\n\n{content}\n", kiln_node_config::media::CREDENTIAL)),
        };
        let place = if kind == "file" { "etc/join" } else { "credentials/join" };
        private_file(root, place, content);
        let parts = json!({"credentialFrom": {"kind": kind, "name": name}});
        write_media_with(root, &document(1, &parts).to_json(), &part);
        let next =
            json!({"credentialFrom": {"kind": kind, "name": name}, "files": [{"path": "/etc/motd", "content": "x"}]});
        fs::write(root.join("next.json"), document(2, &next).to_json()).expect("written");
        let config = root.join("next.json").display().to_string();
        let outputs = [
            kilnd(root, &["boot"]),
            kilnd(root, &["plan", "--config", &config, "--output", "json"]),
            kilnd(root, &["apply", "--config", &config, "--output", "json"]),
        ];
        assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
        assert_outputs_clean(root, &outputs);
        let kept = fs::metadata(root.join("var/lib/kiln/custom-data")).expect("kept").permissions().mode();
        assert_eq!(kept & 0o777, 0o600);
        let private = assert_private(root, root);
        assert!(
            private >= 3,
            "{kind}: only {private} private files contain it; expected the planted one and those that the kubelet reads"
        );
    }
}

#[test]
fn rejected_values_are_not_repeated() {
    for (bad, path) in [
        (json!({"files": [{"path": "/etc/token", "content": TOKEN}]}), "spec.files[0].content"),
        (
            json!({"files": [{"path": "/etc/key", "contentBase64": STANDARD.encode(KEY)}]}),
            "spec.files[0].contentBase64",
        ),
        (json!({"os": {"proxy": {"https": "http://me:hunter2@proxy.example:3128"}}}), "spec.os.proxy.https"),
        (json!({"kubelet": {"version": "1.33.7", "flags": {"--token": TOKEN}}}), "spec.kubelet.flags"),
        (json!({"kubelet": {"version": TOKEN}}), "spec.kubelet.version"),
    ] {
        let folder = folder();
        let root = folder.path();
        image(root);
        let mut spec = serde_json::to_value(document(1, &json!({})).spec).expect("json");
        spec.as_object_mut().expect("an object").extend(bad.as_object().expect("an object").clone());
        let text = json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"generation": 1}, "spec": spec});
        fs::create_dir_all(root.join("planted")).expect("a folder");
        fs::write(root.join("planted/config.json"), text.to_string()).expect("written");
        write_media(root, &text.to_string());
        let config = root.join("planted/config.json").display().to_string();
        let outputs = [
            kilnd(root, &["config", "check", &config]),
            kilnd(root, &["config", "check", &config, "--output", "json"]),
            kilnd(root, &["apply", "--config", &config]),
            kilnd(root, &["boot"]),
        ];
        assert!(outputs.iter().all(|output| output.status.code() == Some(1)), "{outputs:?}");
        assert!(String::from_utf8_lossy(&outputs[0].stdout).contains(path), "{outputs:?}");
        assert_outputs_clean(root, &outputs);
        assert_private(root, root);
    }
}

#[test]
fn invalid_or_exposed_credential_is_not_repeated() {
    for (content, mode) in [(SCRIPT, 0o600), (TOKEN, 0o644)] {
        let folder = folder();
        let root = folder.path();
        image(root);
        private_file(root, "planted/join", content);
        fs::set_permissions(root.join("planted/join"), fs::Permissions::from_mode(mode)).expect("a mode");
        let parts = json!({"credentialFrom": {"kind": "file", "name": "/planted/join"}});
        write_media(root, &document(1, &parts).to_json());
        let output = kilnd(root, &["boot"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_outputs_clean(root, &[output]);
        assert_private(root, root);
    }
}

/// A notify socket with a full queue: kilnd blocks when it sends a notification, until the socket is closed.
fn busy_manager(path: &Path) -> UnixDatagram {
    let manager = UnixDatagram::bind(path).expect("a socket");
    let other = UnixDatagram::unbound().expect("a socket");
    other.set_nonblocking(true).expect("a socket");
    while other.send_to(b"STATUS=busy", path).is_ok() {}
    manager
}

/// Whether the writable memory of a process contains these bytes.
fn memory_contains(process: &Path, bytes: &[u8]) -> bool {
    let maps = fs::read_to_string(process.join("maps")).expect("a running process");
    let memory = fs::File::open(process.join("mem")).expect("its memory");
    maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"))).any(|line| {
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let mut region = vec![0; usize::try_from(number(to) - number(from)).expect("a size")];
        // Some of the kernel's regions cannot be read.
        let count = memory.read_at(&mut region, number(from)).unwrap_or_default();
        region[..count].windows(bytes.len()).any(|window| window == bytes)
    })
}

#[test]
fn process_list_shows_no_secret() {
    let folder = folder();
    let root = folder.path();
    image(root);
    private_file(root, "etc/join", TOKEN);
    write_media(root, &document(1, &json!({"credentialFrom": {"kind": "file", "name": "/etc/join"}})).to_json());
    let manager = busy_manager(&root.join("manager"));
    let mut command = kilnd_on(root);
    command.args(["boot", "--imds", "http://127.0.0.1:1", "--time-scale", "1000"]);
    command.env("NOTIFY_SOCKET", root.join("manager")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kilnd runs");
    // kilnd opens the gate and then blocks in the notification.
    while !root.join("run/kiln/ready").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "{:?}", child.wait_with_output());
        std::thread::yield_now();
    }
    let process = Path::new("/proc").join(child.id().to_string());
    let shown: Vec<Vec<u8>> = ["cmdline", "environ", "comm"]
        .iter()
        .map(|file| fs::read(process.join(file)).expect("a running process"))
        .collect();
    assert!(memory_contains(&process, TOKEN.as_bytes()), "the process has the secret in memory while it is inspected");
    drop(manager);
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&shown[0]).contains("boot"));
    for bytes in &shown {
        assert_clean("the process list", bytes);
    }
    assert_clean("the journal", &output.stderr);
}

#[test]
fn debug_output_of_values_shows_no_secret() {
    let folder = folder();
    let root = folder.path();
    image(root);
    private_file(root, "etc/join", TOKEN);
    testkit::private().inside(|| {
        let node = process(root);
        let config = document(1, &json!({"credentialFrom": {"kind": "file", "name": "/etc/join"}}));
        let candidate = candidate(&node, &config);
        let (_, plan) = kilnd::apply::plan(&node, &candidate).expect("a plan");
        assert_clean("a plan", format!("{plan:?} {candidate:?} {node:?}").as_bytes());
        let applied = apply(&node, &candidate, Consent::Automatic).expect("applied");
        assert_clean("the result", format!("{applied:?}").as_bytes());
    });
    assert!(assert_private(root, root) >= 3, "the search must find the planted secret");
}

/// The files of a tar file by name.
fn untar(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let text = |field: &[u8]| String::from_utf8_lossy(field).trim_end_matches('\0').to_owned();
    let mut at = 0;
    while bytes[at] != 0 {
        let header = &bytes[at..at + 512];
        let size = usize::from_str_radix(&text(&header[124..135]), 8).expect("a size");
        let prefix = text(&header[345..500]);
        let name = if prefix.is_empty() { text(&header[..100]) } else { format!("{prefix}/{}", text(&header[..100])) };
        files.insert(name, bytes[at + 512..at + 512 + size].to_vec());
        at += 512 + size.next_multiple_of(512);
    }
    files
}

/// Texts with every kind of secret, as they appear in logs and configuration files.
fn planted() -> String {
    format!(
        "joined with token {TOKEN}\nflags: --token={TOKEN} --password {PASSWORD}\nPASSWORD={PASSWORD}\n\
         {{\"aadClientSecret\": \"{PASSWORD}\", \"userAssignedIdentityID\": \"x\"}}\nproxy https://me:{PASSWORD}@proxy.example:3128/\n\
         client-key-data: {}\n{KEY}\nescaped: {}\nAuthorization: Bearer {PASSWORD}\nsecret: '{SCRIPT}'\n\
         https://a.blob.example/x?sv=1&se=2&sig={SCRIPT}\nlogged in as {PASSWORD}.\n",
        STANDARD.encode(KEY),
        KEY.replace('\n', "\\n"),
    )
}

/// A `journalctl` that prints planted secrets. The real one is tested on a booted machine.
fn fake_journal(root: &Path) -> String {
    let folder = root.join("planted/bin");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(root.join("planted/journal"), planted()).expect("written");
    let program = folder.join("journalctl");
    fs::write(&program, format!("#!/bin/sh\ncat {}/planted/journal\n", root.display())).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    format!("{}:{}", folder.display(), std::env::var("PATH").expect("a search path"))
}

#[test]
fn support_bundle_contains_no_secret() {
    let folder = folder();
    let root = folder.path();
    image(root);
    private_file(root, "credentials/join", TOKEN);
    let part = format!("--b\nContent-Type: {}\n\n{TOKEN}\n", kiln_node_config::media::CREDENTIAL);
    let parts = json!({
        "credentialFrom": {"kind": "customData", "name": ""},
        "files": [{"path": "/etc/app.conf", "content": "in a file of the document: ordinary"}],
    });
    write_media_with(root, &document(1, &parts).to_json(), &part);
    let booted = kilnd(root, &["boot"]);
    assert!(booted.status.success(), "{booted:?}");
    // Secrets in everything that is collected, also where kilnd itself would never write one.
    let generation = fs::read_dir(root.join("etc/kiln/generations")).expect("generations").next().expect("one");
    let generation = generation.expect("an entry").path();
    let name = generation.file_name().expect("a name").to_string_lossy().into_owned();
    let json = json!({"failures": [planted()], "password": PASSWORD, "content": SCRIPT, "nested": {"token": TOKEN}})
        .to_string();
    let mut expected = Vec::new();
    for (file, path, content) in [
        ("status.json", "run/kiln/status.json", &json),
        ("boot.json", "run/kiln/boot.json", &json),
        ("failure.json", "run/kiln/failure.json", &json),
        ("requests.json", "var/lib/kiln/requests.json", &json),
        ("node-state.json", "var/lib/kiln/node-state.json", &json),
        ("settings.json", "etc/kiln/kilnd.json", &json),
        ("ancestry.log", "var/lib/kiln/ancestry.log", &planted()),
        ("os-release", "etc/os-release", &planted()),
        ("units/kubelet.service", "usr/lib/systemd/system/kubelet.service", &format!("[Service]\n{}", planted())),
        ("units/containerd.service", "usr/lib/systemd/system/containerd.service", &planted()),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("written");
        expected.push(file.to_owned());
    }
    for file in ["kubelet.env", "kubelet.json", "containerd.toml", "manifest.json", "config.json"] {
        fs::write(generation.join(file), &json).expect("written");
        let collected = ["manifest.json", "config.json"].contains(&file);
        expected.push(if collected { format!("generations/{name}/{file}") } else { format!("current/{file}") });
    }
    let out = root.join("planted/bundle.tar");
    let mut command = kilnd_on(root);
    let output =
        command.args(["support", "--out"]).arg(&out).env("PATH", fake_journal(root)).output().expect("kilnd runs");
    assert!(output.status.success(), "{output:?}");
    assert_clean("standard output", &output.stdout);
    assert_clean("standard error", &output.stderr);
    assert_eq!(fs::metadata(&out).expect("a bundle").permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&out).expect("a bundle");
    let files = untar(&bytes);
    expected.extend(["kubelet.service", "kiln-config.service"].map(|unit| format!("journal/{unit}.log")));
    for name in expected {
        let content =
            files.get(&format!("kilnd-support/{name}")).unwrap_or_else(|| panic!("no {name}: {:?}", files.keys()));
        assert!(String::from_utf8_lossy(content).contains("***"), "{name} was not collected with its secrets removed");
    }
    for (name, content) in &files {
        assert_clean(name, content);
    }
    assert_clean("the bundle", &bytes);
    for name in ["versions.json", "check-image.json", "index.json", "state.json"] {
        assert!(files.contains_key(&format!("kilnd-support/{name}")), "{name}: {:?}", files.keys());
    }
    // An existing file is not overwritten.
    let again = kilnd(root, &["support", "--out", &out.display().to_string()]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(String::from_utf8_lossy(&again.stderr).contains("already exists"), "{again:?}");
}

#[test]
fn support_bundle_is_bounded() {
    let folder = folder();
    let root = folder.path();
    image(root);
    fs::create_dir_all(root.join("var/lib/kiln")).expect("folders");
    fs::write(root.join("var/lib/kiln/ancestry.log"), "a line of a log\n".repeat(1 << 18)).expect("written");
    let out = root.join("bundle.tar");
    let output = kilnd(root, &["support", "--out", &out.display().to_string(), "--output", "json"]);
    assert!(output.status.success(), "{output:?}");
    let files = untar(&fs::read(&out).expect("a bundle"));
    assert_eq!(files["kilnd-support/ancestry.log"].len(), 2 << 20);
    let index: serde_json::Value = serde_json::from_slice(&files["kilnd-support/index.json"]).expect("JSON");
    let entry = index["files"].as_array().expect("a list").iter().find(|file| file["name"] == "ancestry.log");
    assert_eq!(entry.expect("an entry")["isTruncated"], true);
    assert!(
        index["missing"].as_array().is_some_and(|missing| missing.iter().any(|one| one["name"] == "boot.txt")),
        "{index}"
    );
}
