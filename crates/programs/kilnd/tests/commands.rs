//! Side effects of the commands: notifications to systemd, locking, file operations, and the reference page.

mod support;

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use kilnd::apply::{Consent, apply};
use kilnd::args::HELP;
use kilnd::log::error_line;
use kilnd::os::{Lock, Root};
use kilnd::status::Status;
use serde_json::json;
use support::documents::document;
use support::program::kilnd_on;
use support::world::{candidate, folder, image, process};

/// Prepares a root with a NodeConfig as a system credential, which needs no network.
fn machine(root: &Path) {
    image(root);
    fs::create_dir_all(root.join("credentials")).expect("a folder");
    fs::write(root.join("credentials/kiln.node-config"), document(1, &json!({})).to_json()).expect("written");
}

/// The document is valid: only the machine knows where its links lead.
#[test]
fn link_of_the_image_does_not_lead_a_document_to_kilns_folders() {
    testkit::private().inside(|| {
        for (link, target, path) in [
            ("srv/link", "/etc/kiln", "/srv/link/current/kubelet.json"),
            ("opt/state", "../var/lib/kiln", "/opt/state/state.json"),
        ] {
            let folder = folder();
            let root = folder.path();
            image(root);
            for folder in ["etc/kiln", "var/lib/kiln"] {
                fs::create_dir_all(root.join(folder)).expect("folders");
            }
            fs::create_dir_all(root.join(link).parent().expect("a parent")).expect("folders");
            std::os::unix::fs::symlink(target, root.join(link)).expect("a link");
            let node = process(root);
            let wanted = candidate(&node, &document(1, &json!({"files": [{"path": path, "content": "x"}]})));
            let error = error_line(&apply(&node, &wanted, Consent::Automatic).expect_err("rejected"));
            assert!(error.contains(path) && error.contains("a document may not write to"), "{error}");
            assert!(!root.join("etc/kiln/current").exists(), "nothing was applied");
        }
    });
}

#[test]
fn systemd_is_notified_only_after_the_gate_is_open() {
    let folder = folder();
    let root = folder.path();
    machine(root);
    let socket = root.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    let mut child = kilnd_on(root).arg("boot").env("NOTIFY_SOCKET", &socket).spawn().expect("kilnd runs");
    let mut buffer = [0; 256];
    let length = manager.recv(&mut buffer).expect("a message");
    assert!(buffer[..length].starts_with(b"READY=1\n"), "{:?}", String::from_utf8_lossy(&buffer[..length]));
    assert!(root.join("run/kiln/ready").is_file());
    assert!(root.join("etc/kiln/current/kubelet.env").is_file());
    assert!(child.wait().expect("ended").success());
}

#[test]
fn failed_boot_sends_no_ready_notification() {
    let folder = folder();
    let root = folder.path();
    machine(root);
    fs::write(
        root.join("credentials/kiln.node-config"),
        "{\"apiVersion\": \"node.kiln.dev/v9\", \"kind\": \"NodeConfig\"}",
    )
    .expect("written");
    let socket = root.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_nonblocking(true).expect("a mode");
    let output = kilnd_on(root).arg("boot").env("NOTIFY_SOCKET", &socket).output().expect("kilnd runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(manager.recv(&mut [0; 16]).is_err(), "nothing was sent");
    assert!(!root.join("run/kiln/ready").exists());
    let status: Status =
        serde_json::from_slice(&fs::read(root.join("run/kiln/status.json")).expect("a status")).expect("json");
    assert!(status.failures.iter().any(|failure| failure.contains("node.kiln.dev/v9")), "{status:?}");
    assert!(status.next.is_some(), "the status has a next step");
}

#[test]
fn concurrent_change_fails_and_names_the_lock_holder() {
    let folder = folder();
    let root = folder.path();
    machine(root);
    fs::write(root.join("config.json"), document(1, &json!({})).to_json()).expect("written");
    let lock = Lock::take(&Root::open(root).expect("a root"), kiln_node_plan::layout::LOCK).expect("the lock");
    let run = || kilnd_on(root).args(["apply", "--config"]).arg(root.join("config.json")).output().expect("kilnd runs");
    let failed = run();
    assert_eq!(failed.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(printed.contains(&format!("process {}", std::process::id())), "{printed}");
    assert!(!root.join("etc/kiln/current").exists());
    drop(lock);
    assert_eq!(run().status.code(), Some(0));
}

#[test]
fn second_apply_performs_no_file_operation() {
    let folder = folder();
    let root = folder.path();
    machine(root);
    let parts = json!({
        "files": [{"path": "/etc/app/0", "content": "x"}],
        "os": {"sysctl": {"vm.swappiness": "1"}, "time": {"zone": "Europe/Berlin"}},
        "platform": {"users": [{"name": "admin", "sshKeys": ["ssh-ed25519 AAAA"], "sudo": true}], "hostName": "node-7"},
        "units": [{"name": "a.service", "content": "[Install]\nWantedBy=multi-user.target\n", "enabled": true}],
    });
    let config = document(1, &parts);
    testkit::private().inside(|| {
        let node = process(root);
        apply(&node, &candidate(&node, &config), Consent::Automatic).expect("applied");
        let node = process(root);
        let again = apply(&node, &candidate(&node, &config), Consent::Automatic).expect("applied");
        assert_eq!(node.root.counts().total(), 0, "{:?}", again.plan.steps);
    });
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/kilnd.md")
}

#[test]
fn reference_page_contains_the_help_text() {
    let text = fs::read_to_string(page()).expect("docs/reference/kilnd.md");
    let (head, rest) = text.split_once("```text\n").expect("a block");
    let (_, tail) = rest.split_once("```\n").expect("its end");
    let wanted = format!("{head}```text\n{HELP}```\n{tail}");
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(page(), &wanted).expect("written");
        return;
    }
    assert!(text == wanted, "the page is outdated; run `KILN_BLESS=1 cargo test -p kilnd --test commands`");
}

#[test]
fn reference_page_lists_every_status_field() {
    let text = fs::read_to_string(page()).expect("docs/reference/kilnd.md");
    let generation = json!({"number": 1, "hash": "h", "folder": "f", "source": "s"});
    let whole = json!({
        "schema": 2, "program": "p", "command": "c", "outcome": "applied", "boot": "first", "generation": generation,
        "onTrial": true, "previous": generation, "effect": "none", "changed": [{"path": "p", "effect": "none"}],
        "pending": ["x"], "warnings": ["x"], "failures": ["x"], "next": "x",
        "rejected": [{"number": 1, "hash": "h", "reason": "r"}],
        "steps": [{"name": "n", "startedUsec": 1, "tookUsec": 1, "ok": true}],
    });
    let status: Status = serde_json::from_value(whole.clone()).expect("a status");
    assert_eq!(serde_json::to_value(&status).expect("json"), whole, "`whole` has every field of the status");
    for field in whole.as_object().expect("an object").keys() {
        assert!(text.contains(&format!("| `{field}` |")), "`{field}` is missing from the page");
    }
}
