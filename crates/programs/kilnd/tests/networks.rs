//! Tests never run a client of the metadata service outside a private network: on a cloud VM the real service would answer. This file checks
//! the test sources of every crate; `support::world::process` and `scripted_host::Host` check at run time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Cargo's variable for the program, in two parts so that this file does not contain it.
const PROGRAM: (&str, &str) = ("CARGO_BIN_EXE", "_kilnd");

/// The only way to start it.
const START: &str = "testkit::private().command(env!(\"";

/// Files that mention the program otherwise, and why it is still in a private network.
const OTHER_USES: [(&str, &str); 14] = [
    ("programs/kilnd/az_grow_root.rs", "below `unshare --net`"),
    ("programs/kilnd/az_images.rs", "below `unshare --net`, and copied into a machine without a network"),
    ("programs/kilnd/az_power_cut.rs", "started in the private network, and copied into a machine"),
    ("programs/kilnd/booted/stage.rs", "a machine has a private network"),
    ("programs/kilnd/e2e_early_network.rs", "a network namespace inside a machine"),
    ("programs/kilnd/e2e_fleet/operator.rs", "only its folder is used, which also has kiln"),
    ("programs/kilnd/e2e_freeze/booted.rs", "copied into a machine, which has a private network"),
    ("programs/kilnd/e2e_identity_containerd.rs", "below `unshare --net`"),
    ("programs/kilnd/e2e_identity_mounts.rs", "below `unshare --net`"),
    ("programs/kilnd/e2e_task_pods.rs", "runc creates a network namespace"),
    ("programs/kilnd/install.rs", "only its bytes are compared"),
    ("programs/kilnd/packaged/mod.rs", "copied into a machine, which has a private network"),
    ("programs/kilnd/raw_names.rs", "below `unshare --net`"),
    ("programs/kilnd/support/program.rs", "started by `kilnd()`, and by scripts in the private network"),
];

/// Texts that make a test process a client: kilnd's own client, and the addresses of an embedded Azure's services.
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
    "sources::report(",
];

/// Files that contain such a text and are not clients.
const NOT_CLIENTS: [(&str, &str); 1] = [("dev/testkit/src/sim.rs", "the line that it parses has no such address")];

/// Protections of a client: the private network, another network namespace, or an assertion.
const PROTECTIONS: [&str; 3] = ["testkit::private().inside(", "\"--net\"", "testkit::assert_private()"];

/// The only Python module that knows the services of an embedded Azure, with its lookup and its check of the network.
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

/// The test code of a source file.
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

/// The files that mention the program other than to start it in the private network.
fn files_with_program(sources: &BTreeMap<String, String>) -> Vec<&str> {
    let name = format!("{}{}", PROGRAM.0, PROGRAM.1);
    let has_program = |text: &str| text.replace(&format!("{START}{name}"), "").contains(&name);
    sources.iter().filter(|(_, text)| has_program(text)).map(|(file, _)| file.as_str()).collect()
}

/// The files with an unprotected client in the test process.
fn unprotected_clients(sources: &BTreeMap<String, String>) -> Vec<&str> {
    let is_client = |text: &str| CLIENTS.iter().any(|client| text.contains(client));
    let is_protected = |text: &str| PROTECTIONS.iter().any(|protection| text.contains(protection));
    sources.iter().filter(|(_, text)| is_client(text) && !is_protected(text)).map(|(file, _)| file.as_str()).collect()
}

/// The Python scenarios that call the metadata service.
fn scenarios(modules: &BTreeMap<String, String>) -> Vec<&str> {
    let functions = modules.values().flat_map(|text| text.split("\ndef ").skip(1));
    functions.filter(|body| body.contains("azure.imds")).filter_map(|body| body.split('(').next()).collect()
}

/// The files with a test that runs one of these scenarios outside the private network.
fn unprotected_scenarios<'a>(sources: &'a BTreeMap<String, String>, scenarios: &[&str]) -> Vec<&'a str> {
    let runs = |test: &str| scenarios.iter().any(|name| test.contains(&format!("\"{name}\"")));
    let is_exposed = |text: &str| text.split("#[test]").any(|test| runs(test) && !test.contains(PROTECTIONS[0]));
    sources.iter().filter(|(_, text)| is_exposed(text)).map(|(file, _)| file.as_str()).collect()
}

#[test]
fn program_is_started_only_in_a_private_network() {
    let sources = sources();
    let mut others = files_with_program(&sources);
    assert!(others.len() > 3, "the search must find the known files: {others:?}");
    others.retain(|file| OTHER_USES.iter().all(|(known, _)| known != file));
    assert_eq!(others, Vec::<&str>::new(), "start it with `support::program::kilnd()`");
}

#[test]
fn client_in_the_test_process_runs_in_the_private_network() {
    let sources = sources();
    let some = [
        "programs/kiln/sim/http.rs",
        "programs/kilnd/crash.rs",
        "programs/kilnd/sources.rs",
        "programs/kilnd/src/os/systemd/tests.rs",
        "programs/kilnd/src/sources/imds.rs",
    ];
    assert!(some.iter().all(|file| sources.contains_key(*file)), "every crate is searched");
    let mut found = unprotected_clients(&sources);
    found.retain(|file| NOT_CLIENTS.iter().all(|(known, _)| known != file));
    assert_eq!(found, Vec::<&str>::new(), "run it in `testkit::private().inside`");
}

#[test]
fn python_scenarios_that_call_the_metadata_service_run_in_the_private_network() {
    let modules = below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/python"), "py");
    let callers = scenarios(&modules);
    for name in ["machines_log_in", "user_data_reaches_the_machine"] {
        assert!(callers.contains(&name), "{callers:?}");
    }
    assert_eq!(
        unprotected_scenarios(&sources(), &callers),
        Vec::<&str>::new(),
        "run it in `testkit::private().inside`"
    );
    // Outside it the module fails at run time, and no other module bypasses that.
    let (module, lookup, check) = PYTHON;
    let using: Vec<&String> =
        modules.iter().filter(|(_, text)| text.contains("imds\"]")).map(|(file, _)| file).collect();
    assert_eq!(using, [module]);
    assert!(modules[module].contains(lookup) && modules[module].contains(check), "{module}");
}

#[test]
fn checks_find_unprotected_programs_and_clients() {
    let name = format!("{}{}", PROGRAM.0, PROGRAM.1);
    let source = |text: String| BTreeMap::from([("a.rs".to_owned(), text)]);
    assert_eq!(files_with_program(&source(format!("Command::new(env!(\"{name}\"))"))), ["a.rs"]);
    assert_eq!(files_with_program(&source(format!("{START}{name}\"))"))), Vec::<&str>::new());
    assert_eq!(unprotected_clients(&source("Imds::new(&url, 1)".to_owned())), ["a.rs"]);
    assert_eq!(unprotected_clients(&source("get(sim.key(\"imds\"))".to_owned())), ["a.rs"]);
    assert_eq!(
        unprotected_clients(&source("testkit::assert_private(); get(sim.key(\"imds\"))".to_owned())),
        Vec::<&str>::new()
    );
    let text = "fn real() { Imds::new(&url, 1) }\n#[cfg(test)]\nmod tests { fn asks() { Imds::new(&url, 1) } }\n";
    assert!(tests_of("imds.rs", text).is_some_and(|tests| tests.starts_with("#[cfg") && tests.contains("asks")));
    assert_eq!(tests_of("boot.rs", "fn real() { Imds::new(&url, 1) }\n"), None);
    assert_eq!(tests_of("boot/tests.rs", "all of it"), Some("all of it"));
    let modules =
        BTreeMap::from([("m.py".to_owned(), "\ndef asks(azure):\n    azure.imds\n\ndef other(azure):\n".to_owned())]);
    assert_eq!(scenarios(&modules), ["asks"]);
    let inside = format!("#[test]\nfn a() {{ {}|| plays(\"m\", \"asks\")) }}\n", PROTECTIONS[0]);
    let both = format!("{inside}#[test]\nfn b() {{ plays(\"m\", \"asks\") }}\n");
    assert_eq!(
        unprotected_scenarios(&source(both), &["asks"]),
        ["a.rs"],
        "a protected test in the same file does not help"
    );
    assert_eq!(unprotected_scenarios(&source(inside), &["asks"]), Vec::<&str>::new());
}
