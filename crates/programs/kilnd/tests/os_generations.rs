//! Generations are written atomically and pruned to five. After a kill at any point the old or the new one is in force, never a mix.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kiln_node_plan::{DesiredFile, FileContent, Owner};
use kiln_types::SecretBytes;
use kilnd::os::{Durability, Error, Generations, Root};
use proptest::prelude::*;

fn artifact(path: &str, text: &str) -> DesiredFile {
    let content = FileContent::from(text.to_owned());
    DesiredFile { path: path.to_owned(), content, mode: 0o644, owner: Owner::root(), affects: Vec::new() }
}

fn set(values: &[(&str, &str)]) -> Vec<DesiredFile> {
    values.iter().map(|(path, text)| artifact(path, text)).collect()
}

/// A root on a tmpfs if possible, because the tests sync thousands of times.
fn root() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let root = Root::open(folder.path()).expect("a root");
    (folder, root)
}

/// The content of all files below a folder.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("entry")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().expect("type").is_dir() {
            all.extend(content(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            all.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    all
}

#[test]
fn writing_a_generation_again_changes_nothing() {
    let (folder, root) = root();
    let generations = Generations::new(&root);
    let mut files = set(&[("kubelet.env", "A=1\n"), ("certs.d/docker.io/hosts.toml", "x\n")]);
    files.push(DesiredFile {
        content: FileContent::Secret(SecretBytes::new("s3cr3t")),
        mode: 0o600,
        ..artifact("kubeconfig", "")
    });
    files.push(DesiredFile::link("ca.crt", "/etc/ssl/ca.crt"));
    files.push(DesiredFile::seed("kubelet.conf", "first".to_owned()));
    assert!(generations.write("1-aa", &files, Durability::Now).expect("written"));
    fs::write(folder.path().join("etc/kiln/generations/1-aa/kubelet.conf"), "rotated").expect("write");
    generations.switch_to("1-aa", Durability::Now).expect("switched");
    assert_eq!(generations.current().expect("current").as_deref(), Some("1-aa"));
    assert_eq!(fs::read(folder.path().join("etc/kiln/current/kubelet.env")).expect("read"), b"A=1\n");
    let before = root.counts();
    assert!(!generations.write("1-aa", &files, Durability::Now).expect("nothing to do"));
    assert_eq!(root.counts(), before);
    assert!(generations.contains("1-aa", &files).expect("readable"));
    fs::write(folder.path().join("etc/kiln/generations/1-aa/extra"), "").expect("write");
    assert!(!generations.contains("1-aa", &files).expect("readable"), "an unexpected file");
}

#[test]
fn generation_with_the_same_name_is_replaced_completely() {
    let (folder, root) = root();
    let generations = Generations::new(&root);
    generations.write("1", &set(&[("a", "old"), ("gone", "x")]), Durability::Now).expect("written");
    generations.write("1", &set(&[("a", "new")]), Durability::Now).expect("replaced");
    let files = content(&folder.path().join("etc/kiln/generations"));
    assert_eq!(files, BTreeMap::from([("1/a".to_owned(), b"new".to_vec())]));
}

#[test]
fn prune_keeps_five_by_number_and_never_removes_a_needed_one() {
    let (_folder, root) = root();
    let generations = Generations::new(&root);
    for number in [1, 2, 3, 9, 10, 11, 12] {
        generations.write(&format!("{number}-x"), &set(&[("a", "b")]), Durability::Later).expect("written");
    }
    assert_eq!(generations.list().expect("list"), ["1-x", "2-x", "3-x", "9-x", "10-x", "11-x", "12-x"]);
    generations.switch_to("1-x", Durability::Later).expect("switched");
    assert_eq!(generations.prune(5, &["2-x"]).expect("prune"), ["3-x", "9-x"]);
    assert_eq!(generations.list().expect("list"), ["1-x", "2-x", "10-x", "11-x", "12-x"]);
    assert_eq!(generations.prune(5, &["2-x"]).expect("prune"), Vec::<String>::new());
}

/// One update: write the generation, write other files, switch `current`, prune.
fn apply(
    root: &Root,
    name: &str,
    files: &[DesiredFile],
    elsewhere: &[(String, String)],
    how: Durability,
) -> Result<(), Error> {
    let generations = Generations::new(root);
    generations.write(name, files, how)?;
    let placed: Vec<DesiredFile> = elsewhere.iter().map(|(path, text)| DesiredFile::new(path, text, 0o644)).collect();
    let differing: Vec<DesiredFile> = root.differing(&placed)?.into_iter().cloned().collect();
    root.write_all(&differing, how)?;
    if generations.current()?.as_deref() != Some(name) {
        generations.switch_to(name, how)?;
    }
    generations.prune(1, &[])?;
    Ok(())
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[a-c]{1,2}(/[d-e]{1,2})?\\.x", "[xy]{0,40}", 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn killed_at_any_point_the_old_or_new_generation_is_in_force_and_the_next_run_completes(
        before in texts(),
        after in texts(),
        old in "[o]{1,30}",
        new in "[n]{1,30}",
        same_name in any::<bool>(),
    ) {
        let files = |texts: &BTreeMap<String, String>| -> Vec<DesiredFile> {
            texts.iter().map(|(path, text)| artifact(path, text)).collect()
        };
        let bytes = |texts: &BTreeMap<String, String>| -> BTreeMap<String, Vec<u8>> {
            texts.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect()
        };
        let elsewhere = |text: &str| vec![("/etc/sysctl.d/k.conf".to_owned(), text.to_owned())];
        let name = if same_name { "1-a" } else { "2-b" };
        let mut stopped = 0;
        for end in 0.. {
            let (folder, root) = root();
            apply(&root, "1-a", &files(&before), &elsewhere(&old), Durability::Now).expect("the first");
            root.stop_after(Some(root.counts().total() + end));
            let result = apply(&root, name, &files(&after), &elsewhere(&new), Durability::Now);
            let now = content(&folder.path().join("etc/kiln/current"));
            prop_assert!(now == bytes(&before) || now == bytes(&after), "after {} operations: {:?}", end, now);
            let sysctl = fs::read_to_string(folder.path().join("etc/sysctl.d/k.conf")).expect("read");
            prop_assert!(sysctl == old || sysctl == new, "{}", sysctl);
            root.stop_after(None);
            apply(&root, name, &files(&after), &elsewhere(&new), Durability::Now).expect("the next run");
            prop_assert_eq!(content(&folder.path().join("etc/kiln/current")), bytes(&after));
            let everything: Vec<String> = content(folder.path()).into_keys().collect();
            prop_assert!(!everything.iter().any(|path| path.contains("kiln-new")), "{:?}", everything);
            match result {
                Ok(()) => break,
                Err(error) => {
                    prop_assert!(matches!(error, Error::Stopped { .. }), "{}", error);
                    stopped += 1;
                }
            }
        }
        prop_assert!(stopped > 5, "{} kill points", stopped);
    }
}
