//! Every operation on a file as the last one: what is left is the old or the new, and the next run goes on.

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

/// A folder with a document in force.
fn with(root: &Path, config: &NodeConfig) -> Files {
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

/// What holds at every moment: the link names a whole generation, and every file outside is the old, the new, or what the image had.
fn is_old_or_new(root: &Path, left: &Files, known: &[&Files], at: u64) {
    if let Some(link) = left.get("etc/kiln/current") {
        let folder = root.join("etc/kiln").join(&link[3..]);
        let whole = ["config.json", "kubelet.json", "kubelet.env", "manifest.json", "ca.crt"];
        assert!(whole.iter().all(|name| folder.join(name).is_file()), "stopped at {at}: {link} is not whole");
    }
    for (path, content) in
        left.iter().filter(|(path, _)| !path.ends_with(".kiln-new") && !path.starts_with("etc/kiln/"))
    {
        let is_known = known.iter().any(|files| files.get(path) == Some(content));
        assert!(is_known, "stopped at {at}: {path} is neither old nor new: {content:?}");
    }
}

/// Two sets of files, and what differs.
fn same(now: &Files, wanted: &Files, at: u64) {
    let paths = now.keys().chain(wanted.keys()).filter(|path| now.get(*path) != wanted.get(*path));
    let differ: Vec<String> =
        paths.map(|path| format!("{path}: {:?} instead of {:?}", now.get(path), wanted.get(path))).collect();
    assert!(differ.is_empty(), "stopped at {at}: {differ:#?}");
}

/// Stops an act after each of its operations, and looks.
fn at_every_stop(start: &Path, act: impl Fn(&Node) -> bool, look: impl Fn(&Path, u64)) {
    let folder = folder();
    let whole = folder.path().join("whole");
    copy(start, &whole);
    let node = process(&whole);
    assert!(act(&node), "it succeeds when nobody stops it");
    let operations = node.root.counts().total();
    assert!(operations > 20, "{operations} operations are too few to be all of them");
    for at in 0..operations {
        let root = folder.path().join(at.to_string());
        copy(start, &root);
        let node = process(&root);
        node.root.stop_after(Some(at));
        act(&node);
        drop(node);
        look(&root, at);
        fs::remove_dir_all(&root).expect("removed");
    }
}

#[test]
fn an_apply_that_is_cut_off_leaves_old_or_new_and_whoever_comes_next_goes_on() {
    testkit::private().inside(|| {
        let folder = folder();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::create_dir_all(&old).expect("a folder");
        let before = with(&old, &one());
        copy(&old, &new);
        let node = process(&new);
        apply(&node, &candidate(&node, &two()), Consent::Forced).expect("applied");
        let after = files(&new);
        let go = |node: &Node| apply(node, &candidate(node, &two()), Consent::Forced).is_ok();
        at_every_stop(&old, go, |root, at| {
            is_old_or_new(root, &files(root), &[&before, &after], at);
            let started = root.with_extension("started");
            copy(root, &started);
            a_start_makes_it_whole(&started, &before, &after, at);
            let node = process(root);
            apply(&node, &candidate(&node, &two()), Consent::Forced)
                .unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
            same(&files(root), &after, at);
            let again = apply(&node, &candidate(&node, &two()), Consent::Forced).expect("again");
            assert!(again.plan.is_empty(), "stopped at {at}: {:?}", again.plan.steps);
        });
    });
}

/// A start of the machine makes it wholly old or wholly new, as the node remembers, and opens the gate.
fn a_start_makes_it_whole(root: &Path, before: &Files, after: &Files, at: u64) {
    restart(root);
    let node = process(root);
    boot(&node).unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
    assert!(root.join("run/kiln/ready").exists(), "stopped at {at}");
    let state = load_state(&node).expect("a state");
    let wanted = if state.in_force().expect("a generation").number == 1 { before } else { after };
    let mut now = files(root);
    // What was being prepared lies beside its place, where nobody takes it for anything.
    now.retain(|path, _| !path.ends_with(".kiln-new"));
    same(&now, wanted, at);
    fs::remove_dir_all(root).expect("removed");
}

#[test]
fn a_rollback_that_is_cut_off_goes_on_at_the_next_start() {
    testkit::private().inside(|| {
        let folder = folder();
        let root = folder.path().join("root");
        fs::create_dir_all(&root).expect("a folder");
        let before = with(&root, &one());
        let node = process(&root);
        rollback::commit(&node).expect("confirmed");
        apply(&node, &candidate(&node, &two()), Consent::Forced).expect("applied");
        let after = files(&root);
        at_every_stop(
            &root,
            |node| rollback::revert(node, "not healthy").is_ok_and(|back| back.is_some()),
            |root, at| {
                is_old_or_new(root, &files(root), &[&before, &after], at);
                let started = root.with_extension("started");
                copy(root, &started);
                a_start_makes_it_whole(&started, &before, &after, at);
            },
        );
    });
}

#[test]
fn a_first_boot_that_is_cut_off_is_a_first_boot_again() {
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
                is_old_or_new(root, &files(root), &[&untouched, &after], at);
                restart(root);
                boot(&process(root)).unwrap_or_else(|error| panic!("stopped at {at}: {error:?}"));
                same(&files(root), &after, at);
            },
        );
    });
}

/// Stops an update from one document to another after a share of its operations.
fn any_stop(from: &Value, to: &Value, share: f64) {
    let folder = folder();
    let (old, whole, cut) = (folder.path().join("old"), folder.path().join("whole"), folder.path().join("cut"));
    fs::create_dir_all(&old).expect("a folder");
    let (from, to) = (document(1, from), document(2, to));
    let before = with(&old, &from);
    copy(&old, &whole);
    copy(&old, &cut);
    let node = process(&whole);
    apply(&node, &candidate(&node, &to), Consent::Forced).expect("applied");
    let after = files(&whole);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of hundreds"
    )]
    let at = (node.root.counts().total() as f64 * share) as u64;
    let node = process(&cut);
    node.root.stop_after(Some(at));
    let _ = apply(&node, &candidate(&node, &to), Consent::Forced);
    is_old_or_new(&cut, &files(&cut), &[&before, &after], at);
    let node = process(&cut);
    apply(&node, &candidate(&node, &to), Consent::Forced).expect("applied");
    same(&files(&cut), &after, at);
    // And all the way back.
    let node = process(&cut);
    rollback::roll_back(&node, Some(1)).expect("back");
    let mut back = files(&cut);
    let mut was = before;
    // An account that retires may not log in any more; its lines stay, so that its files have an owner.
    for path in ["etc/passwd", "etc/group", "etc/shadow"] {
        back.remove(path);
        was.remove(path);
    }
    back.retain(|path, _| !path.starts_with("home/admin/") || was.contains_key(path));
    same(&back, &was, at);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn between_any_two_documents_any_stop_leaves_old_or_new(from in parts(), to in parts(), share in 0.0..1.0_f64) {
        testkit::private().inside(|| any_stop(&from, &to, share));
    }
}
