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
    ("programs/kilnd/az_grow_root.rs", "below `unshare --net`"),
    ("programs/kilnd/booted/stage.rs", "a machine has a network of its own"),
    ("programs/kilnd/e2e_early_network.rs", "a network within that of a machine"),
    ("programs/kilnd/e2e_identity_containerd.rs", "below `unshare --net`"),
    ("programs/kilnd/e2e_identity_mounts.rs", "below `unshare --net`"),
    ("programs/kilnd/e2e_task_pods.rs", "a container that runc gives a network of its own"),
    ("programs/kilnd/install.rs", "its bytes are compared, and it is not started"),
    ("programs/kilnd/support/program.rs", "started by `kilnd()` there, and by scripts that run in that network"),
];

/// What makes a test a client in its own process: kilnd's own client, and the addresses of an embedded Azure's services.
const CLIENTS: [&str; 11] = [
    "Imds::new(",
    "Platform::query(",
    "addresses.imds",
    "addresses.wire",
    "key(\"imds\")",
    "key(\"wireServer\")",
    "sources::find(",
    "kilnd::boot::",
    "kilnd::watch",
    "metadata_base: Some",
    "report_ready(",
];

/// Who looks like a client, and is none.
const NO_CLIENTS: [(&str, &str); 1] = [("dev/testkit/src/sim.rs", "the line that it looks at has no such address")];

/// What keeps a client from a real service: that network, one like it, or failing elsewhere.
const KEPT: [&str; 3] = ["testkit::private().inside(", "\"--net\"", "testkit::assert_private()"];

/// The one Python module that knows where an embedded Azure's services are, how it asks for them, and how it fails elsewhere.
const PYTHON: (&str, &str, &str) =
    ("azure_under_test.py", "ready[\"imds\"]", "ours.bind((\"169.254.169.254\", 0))\n        return self._imds");

/// The sources of the tests of every crate, by `RING/CRATE/FILE`, without this file, which contains every name it searches for.
fn sources() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = BTreeMap::new();
    for (manifest, _) in below(&crates, "toml").into_iter().filter(|(file, _)| file.ends_with("/Cargo.toml")) {
        let name = manifest.trim_end_matches("/Cargo.toml");
        let path = crates.join(name);
        if path.join("tests").is_dir() {
            let tests = below(&path.join("tests"), "rs");
            found.extend(tests.into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
        }
        if path.join("src").is_dir() {
            let tests = below(&path.join("src"), "rs").into_iter().filter_map(|(file, text)| {
                let tests = tests_of(&file, &text)?.to_owned();
                Some((format!("{name}/src/{file}"), tests))
            });
            found.extend(tests);
        }
    }
    found.remove("programs/kilnd/networks.rs").expect("this file");
    found
}

/// What of a source is tests alone.
fn tests_of<'a>(file: &str, text: &'a str) -> Option<&'a str> {
    if Path::new(file).file_stem().is_some_and(|stem| stem == "tests") {
        return Some(text);
    }
    text.find("#[cfg(test)]").map(|at| &text[at..])
}

fn below(folder: &Path, kind: &str) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == kind) {
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
    let is_kept = |text: &str| KEPT.iter().any(|way| text.contains(way));
    sources.iter().filter(|(_, text)| is_client(text) && !is_kept(text)).map(|(file, _)| file.as_str()).collect()
}

/// The scenarios of the Python SDK that ask the metadata service.
fn scenarios(modules: &BTreeMap<String, String>) -> Vec<&str> {
    let functions = modules.values().flat_map(|text| text.split("\ndef ").skip(1));
    functions.filter(|body| body.contains("azure.imds")).filter_map(|body| body.split('(').next()).collect()
}

/// The tests that play one of them and are not in the private network, by the file.
fn playing<'a>(sources: &'a BTreeMap<String, String>, scenarios: &[&str]) -> Vec<&'a str> {
    let plays = |test: &str| scenarios.iter().any(|name| test.contains(&format!("\"{name}\"")));
    let is_exposed = |text: &str| text.split("#[test]").any(|test| plays(test) && !test.contains(KEPT[0]));
    sources.iter().filter(|(_, text)| is_exposed(text)).map(|(file, _)| file.as_str()).collect()
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
    let some = [
        "programs/kiln/sim/http.rs",
        "programs/kilnd/crash.rs",
        "programs/kilnd/sources.rs",
        "programs/kilnd/src/os/systemd/tests.rs",
        "programs/kilnd/src/sources/imds.rs",
    ];
    assert!(some.iter().all(|file| sources.contains_key(*file)), "all are read");
    let mut found = exposed(&sources);
    found.retain(|file| NO_CLIENTS.iter().all(|(known, _)| known != file));
    assert_eq!(found, Vec::<&str>::new(), "run it in `testkit::private().inside`");
}

#[test]
fn a_scenario_of_the_python_sdk_that_asks_the_metadata_service_is_there_too() {
    let modules = below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/python"), "py");
    let asking = scenarios(&modules);
    for name in ["machines_log_in", "user_data_reaches_the_machine"] {
        assert!(asking.contains(&name), "{asking:?}");
    }
    assert_eq!(playing(&sources(), &asking), Vec::<&str>::new(), "play it in `testkit::private().inside`");
    // Whoever is not fails as it runs, and nobody goes round that.
    let (module, knows, fails) = PYTHON;
    let knowing: Vec<&String> =
        modules.iter().filter(|(_, text)| text.contains("imds\"]")).map(|(file, _)| file).collect();
    assert_eq!(knowing, [module]);
    assert!(modules[module].contains(knows) && modules[module].contains(fails), "{module}");
}

#[test]
fn who_starts_it_otherwise_is_found() {
    let name = format!("{}{}", PROGRAM.0, PROGRAM.1);
    let source = |text: String| BTreeMap::from([("a.rs".to_owned(), text)]);
    assert_eq!(speaking(&source(format!("Command::new(env!(\"{name}\"))"))), ["a.rs"]);
    assert_eq!(speaking(&source(format!("{PRIVATELY}{name}\"))"))), Vec::<&str>::new());
    assert_eq!(exposed(&source("Imds::new(&url, 1)".to_owned())), ["a.rs"]);
    assert_eq!(exposed(&source("get(sim.key(\"imds\"))".to_owned())), ["a.rs"]);
    assert_eq!(exposed(&source("testkit::assert_private(); get(sim.key(\"imds\"))".to_owned())), Vec::<&str>::new());
    let text = "fn real() { Imds::new(&url, 1) }\n#[cfg(test)]\nmod tests { fn asks() { Imds::new(&url, 1) } }\n";
    assert!(tests_of("imds.rs", text).is_some_and(|tests| tests.starts_with("#[cfg") && tests.contains("asks")));
    assert_eq!(tests_of("boot.rs", "fn real() { Imds::new(&url, 1) }\n"), None);
    assert_eq!(tests_of("boot/tests.rs", "all of it"), Some("all of it"));
    let modules =
        BTreeMap::from([("m.py".to_owned(), "\ndef asks(azure):\n    azure.imds\n\ndef other(azure):\n".to_owned())]);
    assert_eq!(scenarios(&modules), ["asks"]);
    let inside = format!("#[test]\nfn a() {{ {}|| plays(\"m\", \"asks\")) }}\n", KEPT[0]);
    let both = format!("{inside}#[test]\nfn b() {{ plays(\"m\", \"asks\") }}\n");
    assert_eq!(playing(&source(both), &["asks"]), ["a.rs"], "a neighbour that is inside is no excuse");
    assert_eq!(playing(&source(inside), &["asks"]), Vec::<&str>::new());
}
