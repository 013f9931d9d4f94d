//! Interrupts kilnd after every file operation: the result is the old or the new generation, and the next run completes the change.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kiln_node_config::NodeConfig;
use kilnd::apply::rollback;
use kilnd::apply::{Consent, apply, load_state};
use kilnd::boot::boot;
use kilnd::node::Node;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::documents::{document, parts};
use support::world::{MACHINE, candidate, copy, files, folder, image, process, restart};

type Files = BTreeMap<String, String>;

/// Sets up a root with this generation in force.
fn apply_first(root: &Path, config: &NodeConfig) -> Files {
    image(root);
    let node = process(root);
    apply(&node, &candidate(&node, config), Consent::Automatic).expect("applied");
    fs::write(root.join("var/lib/kiln/vm-id"), MACHINE).expect("written");
    files(root)
}

fn one() -> NodeConfig {
    document(
        1,
        &json!({
            "files": [{"path": "/etc/app/0", "content": "one"}, {"path": "/etc/app/1", "content": "one", "mode": "0600"}],
            "os": {"sysctl": {"vm.swappiness": "1"}, "time": {"zone": "Europe/Berlin"}},
            "platform": {"users": [{"name": "admin", "sshKeys": ["ssh-ed25519 AAAA"]}]},
        }),
    )
}

fn two() -> NodeConfig {
    document(
        2,
        &json!({
            "files": [{"path": "/etc/app/1", "content": "two"}, {"path": "/etc/app/2", "content": "two"}],
            "os": {"sysctl": {"vm.swappiness": "2", "net.ipv4.ip_forward": "1"}, "swap": {"sizeMib": 1}},
            "platform": {"users": [{"name": "admin", "sshKeys": ["ssh-ed25519 BBBB"], "sudo": true}]},
            "kubelet": {"configuration": {"maxPods": 30}},
        }),
    )
}

/// The invariant at every point: `current` points to a complete generation, and each other file has one of its known versions.
fn assert_old_or_new(root: &Path, left: &Files, known: &[&Files], at: u64) {
    if let Some(link) = left.get("etc/kiln/current") {
        let folder = root.join("etc/kiln").join(&link[3..]);
        let whole = ["config.json", "kubelet.json", "kubelet.env", "manifest.json", "ca.crt"];
        assert!(whole.iter().all(|name| folder.join(name).is_file()), "stopped at {at}: {link} is incomplete");
    }
    for (path, content) in
        left.iter().filter(|(path, _)| !path.ends_with(".kiln-new") && !path.starts_with("etc/kiln/"))
    {
        let is_known = known.iter().any(|files| files.get(path) == Some(content));
        assert!(is_known, "stopped at {at}: {path} is neither old nor new: {content:?}");
    }
}

/// Compares two sets of files and lists the differences.
fn assert_same(now: &Files, wanted: &Files, at: u64) {
    let paths = now.keys().chain(wanted.keys()).filter(|path| now.get(*path) != wanted.get(*path));
    let differ: Vec<String> =
        paths.map(|path| format!("{path}: {:?} instead of {:?}", now.get(path), wanted.get(path))).collect();
    assert!(differ.is_empty(), "stopped at {at}: {differ:#?}");
}

/// Interrupts an action after each of its operations, and calls `check` on the result.
fn at_every_stop(start: &Path, act: impl Fn(&Node) -> bool, check: impl Fn(&Path, u64)) {
    let folder = folder();
    let whole = folder.path().join("whole");
    copy(start, &whole);
    let node = process(&whole);
    assert!(act(&node), "the action succeeds without an interruption");
    let operations = node.root.counts().total();
    assert!(operations > 20, "only {operations} operations were counted");
    for at in 0..operations {
        let root = folder.path().join(at.to_string());
        copy(start, &root);
        let node = process(&root);
        node.root.stop_after(Some(at));
        act(&node);
        drop(node);
        check(&root, at);
        fs::remove_dir_all(&root).expect("removed");
    }
}

#[test]
fn interrupted_apply_leaves_old_or_new_and_the_next_run_completes_it() {
    testkit::private().inside(|| {
        let folder = folder();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::create_dir_all(&old).expect("a folder");
        let before = apply_first(&old, &one());
        copy(&old, &new);
        let node = process(&new);
        apply(&node, &candidate(&node, &two()), Consent::Forced).expect("applied");
        let after = files(&new);
        let apply_new = |node: &Node| apply(node, &candidate(node, &two()), Consent::Forced).is_ok();
        at_every_stop(&old, apply_new, |root, at| {
            assert_old_or_new(root, &files(root), &[&before, &after], at);
            let started = root.with_extension("started");
            copy(root, &started);
            assert_boot_completes(&started, &before, &after, at);
            let node = process(root);
            apply(&node, &candidate(&node, &two()), Consent::Forced)
                .unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
            assert_same(&files(root), &after, at);
            let again = apply(&node, &candidate(&node, &two()), Consent::Forced).expect("again");
            assert!(again.plan.is_empty(), "stopped at {at}: {:?}", again.plan.steps);
        });
    });
}

/// After a boot all files belong to the generation that the state names, and the gate is open.
fn assert_boot_completes(root: &Path, before: &Files, after: &Files, at: u64) {
    restart(root);
    let node = process(root);
    boot(&node).unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
    assert!(root.join("run/kiln/ready").exists(), "stopped at {at}");
    let state = load_state(&node).expect("a state");
    let wanted = if state.in_force().expect("a generation").number == 1 { before } else { after };
    let mut now = files(root);
    // Leftover temporary files are harmless: nothing reads them.
    now.retain(|path, _| !path.ends_with(".kiln-new"));
    assert_same(&now, wanted, at);
    fs::remove_dir_all(root).expect("removed");
}

#[test]
fn interrupted_revert_continues_at_the_next_boot() {
    testkit::private().inside(|| {
        let folder = folder();
        let root = folder.path().join("root");
        fs::create_dir_all(&root).expect("a folder");
        let before = apply_first(&root, &one());
        let node = process(&root);
        rollback::commit(&node).expect("committed");
        apply(&node, &candidate(&node, &two()), Consent::Forced).expect("applied");
        let after = files(&root);
        at_every_stop(
            &root,
            |node| rollback::revert(node, "not healthy").is_ok_and(|reverted| reverted.is_some()),
            |root, at| {
                assert_old_or_new(root, &files(root), &[&before, &after], at);
                let started = root.with_extension("started");
                copy(root, &started);
                assert_boot_completes(&started, &before, &after, at);
            },
        );
    });
}

#[test]
fn interrupted_first_boot_is_repeated() {
    testkit::private().inside(|| {
        let folder = folder();
        let (fresh, done) = (folder.path().join("fresh"), folder.path().join("done"));
        fs::create_dir_all(fresh.join("credentials")).expect("a folder");
        image(&fresh);
        fs::write(fresh.join("credentials/kiln.node-config"), one().to_json()).expect("written");
        let untouched = files(&fresh);
        copy(&fresh, &done);
        boot(&process(&done)).expect("booted");
        let after = files(&done);
        at_every_stop(
            &fresh,
            |node| boot(node).is_ok(),
            |root, at| {
                assert_old_or_new(root, &files(root), &[&untouched, &after], at);
                restart(root);
                boot(&process(root)).unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
                assert_same(&files(root), &after, at);
            },
        );
    });
}

/// Interrupts an update from one NodeConfig to another after each of its operations. Each time the next run completes it, and a rollback restores
/// the old state.
fn check_interrupted_update(from: &Value, to: &Value) {
    let folder = folder();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::create_dir_all(&old).expect("a folder");
    let (from, to) = (document(1, from), document(2, to));
    let before = apply_first(&old, &from);
    copy(&old, &new);
    let update = |node: &Node| apply(node, &candidate(node, &to), Consent::Forced).is_ok();
    assert!(update(&process(&new)), "applied");
    let after = files(&new);
    // A retired account can no longer log in. Its entries stay, so that its files keep an owner.
    let is_account = |path: &str| ["etc/passwd", "etc/group", "etc/shadow"].contains(&path);
    let original: Files = before.clone().into_iter().filter(|(path, _)| !is_account(path)).collect();
    at_every_stop(&old, update, |root, at| {
        assert_old_or_new(root, &files(root), &[&before, &after], at);
        assert!(update(&process(root)), "stopped at {at}: the next run applies the document");
        assert_same(&files(root), &after, at);
        rollback::roll_back(&process(root), Some(1)).unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
        let mut restored = files(root);
        restored.retain(|path, _| !is_account(path));
        restored.retain(|path, _| !path.starts_with("home/admin/") || original.contains_key(path));
        assert_same(&restored, &original, at);
    });
}

proptest! {
    // Few documents, because each of them is interrupted about a hundred times.
    #![proptest_config(ProptestConfig { cases: 5, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn interrupted_update_between_random_documents_leaves_old_or_new(from in parts(), to in parts()) {
        testkit::private().inside(|| check_interrupted_update(&from, &to));
    }
}
