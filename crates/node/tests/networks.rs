//! A client of the metadata service never runs outside a network of the tests' own: on a machine of a real cloud the real service would
//! answer it. The sources of the tests of every crate say so; `support::world::process` and the guest's `Host` see to it as they run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How cargo names the program, in two parts, so that this file does not.
const PROGRAM: (&str, &str) = ("CARGO_BIN_EXE", "_kilnd");

/// How it is started.
const PRIVATELY: &str = "testkit::private().command(env!(\"";

/// Who else speaks of the program, and why it has a network of its own there.
const OTHERS: [(&str, &str); 8] = [
    ("node/az_grow_root.rs", "below `unshare --net`"),
    ("node/booted/stage.rs", "a machine has a network of its own"),
    ("node/e2e_early_network.rs", "a network within that of a machine"),
    ("node/e2e_identity_containerd.rs", "below `unshare --net`"),
    ("node/e2e_identity_mounts.rs", "below `unshare --net`"),
    ("node/e2e_task_pods.rs", "a container that runc gives a network of its own"),
    ("node/install.rs", "its bytes are compared, and it is not started"),
    ("node/support/program.rs", "started by `kilnd()` there, and by scripts that run in that network"),
];

/// What makes a test a client in its own process.
const CLIENTS: [&str; 4] = ["kilnd::boot::", "kilnd::watch", "Imds::new(", "report_ready("];

/// The sources of the tests of every crate, by `CRATE/FILE`. Without this one, which names all that it looks for.
fn sources() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeMap::new();
    for path in fs::read_dir(crates).expect("crates").map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.join("tests").is_dir() {
            found.extend(below(&path.join("tests")).into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
        }
    }
    found.remove("node/networks.rs").expect("this file");
    found
}

fn below(folder: &Path) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
                found.insert(name, fs::read_to_string(&path).expect("a source"));
            }
        }
    }
    found
}

/// The files that speak of the program other than to start it in the private network.
fn speaking(sources: &BTreeMap<String, String>) -> Vec<&str> {
    let name = format!("{}{}", PROGRAM.0, PROGRAM.1);
    let speaks = |text: &str| text.replace(&format!("{PRIVATELY}{name}"), "").contains(&name);
    sources.iter().filter(|(_, text)| speaks(text)).map(|(file, _)| file.as_str()).collect()
}

/// The files with a client in the test's own process that do not enter the private network.
fn exposed(sources: &BTreeMap<String, String>) -> Vec<&str> {
    let is_client = |text: &str| CLIENTS.iter().any(|client| text.contains(client));
    let enters = |text: &str| text.contains("testkit::private().inside(") || text.contains("\"--net\"");
    sources.iter().filter(|(_, text)| is_client(text) && !enters(text)).map(|(file, _)| file.as_str()).collect()
}

#[test]
fn the_program_is_started_in_a_network_of_the_tests_own_and_nowhere_else() {
    let sources = sources();
    let mut others = speaking(&sources);
    assert!(others.len() > 3, "the search finds those that are known: {others:?}");
    others.retain(|file| OTHERS.iter().all(|(known, _)| known != file));
    assert_eq!(others, Vec::<&str>::new(), "start it by `support::program::kilnd()`");
}

#[test]
fn a_client_in_the_tests_own_process_is_in_that_network_too() {
    let sources = sources();
    assert!(["guest/services.rs", "node/crash.rs"].iter().all(|file| sources.contains_key(*file)), "all are read");
    assert_eq!(exposed(&sources), Vec::<&str>::new(), "run it in `testkit::private().inside`");
}

#[test]
fn who_starts_it_otherwise_is_found() {
    let name = format!("{}{}", PROGRAM.0, PROGRAM.1);
    let source = |text: String| BTreeMap::from([("a.rs".to_owned(), text)]);
    assert_eq!(speaking(&source(format!("Command::new(env!(\"{name}\"))"))), ["a.rs"]);
    assert_eq!(speaking(&source(format!("{PRIVATELY}{name}\"))"))), Vec::<&str>::new());
    assert_eq!(exposed(&source("Imds::new(&url, 1)".to_owned())), ["a.rs"]);
}
