//! Invalid input: one clear error with the position, exit code 2, and no side effects.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use testkit::Finished;

use crate::{contents, folder, kiln, text};

/// Runs `kiln sim serve`, which must fail with these words.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) -> Finished {
    let finished = kiln().run(&[&["sim", "serve"], arguments].concat());
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{finished}");
    assert!(finished.stderr.starts_with("error: "), "{finished}");
    assert_eq!(finished.stderr.matches("error: ").count(), 1, "{finished}");
    for word in words {
        assert!(finished.stderr.contains(word), "`{word}` is missing in: {finished}");
    }
    finished
}

fn written(folder: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn invalid_world_file_error_has_the_position_and_creates_no_folder() {
    let folder = folder();
    let state = folder.path().join("state");
    for (name, body, words) in [
        ("typo.yaml", "location: westus2\npools:\n- name: a\n  capcity: 3\n", &["typo.yaml", "capcity", "4"][..]),
        ("value.yaml", "pools: [{name: x, capacity: 5000}]\n", &["value.yaml", "pools[0].capacity", "5000"]),
        ("syntax.yaml", "pools: [", &["syntax.yaml"]),
        ("type.yaml", "pools: 3\n", &["--world", "type.yaml: line 1 column 8"]),
        (
            "refused.yaml",
            "resources: [{path: Microsoft.Nothing/nowhere/x, body: {}}]\n",
            &["refused.yaml", "Microsoft.Nothing/nowhere/x"],
        ),
    ] {
        let world = written(folder.path(), name, body);
        refused(&["--world", text(&world), "--state", text(&state)], words);
        assert!(!state.exists(), "{name} left a folder");
    }
    refused(&["--world", text(&folder.path().join("missing.yaml"))], &["missing.yaml", "No such file"]);
    refused(&["--world", text(folder.path())], &[text(folder.path())]);
}

#[test]
fn invalid_fault_file_error_has_the_position() {
    let folder = folder();
    let unknown = written(folder.path(), "faults.yaml", "faults:\n- kind: exploded\n");
    refused(&["--faults", text(&unknown)], &["error: --faults ", "faults.yaml", "exploded"]);
    let chance = written(folder.path(), "chance.yaml", "faults: [{kind: preempted, probability: 3}]\n");
    refused(&["--faults", text(&chance)], &["chance.yaml", "faults[0].probability", "3"]);
    refused(&["--faults", text(&folder.path().join("missing.yaml"))], &["missing.yaml"]);
}

#[test]
fn port_in_use_is_named_and_creates_no_folder() {
    let folder = folder();
    let state = folder.path().join("state");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for option in ["--listen", "--imds-listen", "--wire-listen"] {
        refused(&[option, &address, "--state", text(&state)], &[&address, "in use"]);
        assert!(!state.exists(), "{option} left a folder");
    }
}

#[test]
fn invalid_option_is_named() {
    for (arguments, words) in [
        (["--speed", "fast"], ["--speed", "`fast` is not `instant` or a factor"]),
        (["--speed", "0"], ["--speed", "`0`"]),
        (["--listen", "here"], ["--listen", "here"]),
        (["--seed", "dice"], ["--seed", "dice"]),
        (["--listen", "192.0.2.1:0"], ["--listen 192.0.2.1:0", "--allow-remote"]),
        (["--imds-listen", "0.0.0.0:0"], ["--imds-listen 0.0.0.0:0", "--allow-remote"]),
        (["--name", "not a name"], ["`not a name`", "name"]),
    ] {
        refused(&arguments, &words);
    }
}

#[test]
fn invalid_folder_is_named() {
    let folder = folder();
    let file = written(folder.path(), "file", "");
    refused(&["--state", text(&file.join("state"))], &[text(&file), "Not a directory"]);
    refused(&["--state", text(&file)], &[text(&file)]);
    assert_eq!(contents(folder.path()), [(file, Vec::new())]);
}

#[test]
fn damaged_state_file_is_named_and_left_unchanged() {
    let folder = folder();
    let state = folder.path().join("state");
    drop(kiln().sim(&["--state", text(&state)]));
    let log = fs::read_to_string(state.join("world.log")).expect("the log");
    for (file, damage, words) in [
        ("world.json", "{", &["world.json"][..]),
        ("world.log", &format!("rubbish\n{log}"), &["world.log", "line 1"]),
        ("tls/server.pem", "rubbish", &["server.pem", "delete the folder"]),
        ("tls/ca.key", "rubbish", &["ca.key", "not a private key"]),
    ] {
        let path = state.join(file);
        let good = fs::read(&path).expect(file);
        fs::write(&path, damage).expect(file);
        let before = contents(&state);
        // A new name needs a new certificate, and therefore the CA key.
        refused(&["--state", text(&state), "--name", "other.internal"], words);
        assert!(contents(&state) == before, "{file}: the folder was changed");
        fs::write(&path, good).expect(file);
    }
    drop(kiln().sim(&["--state", text(&state)]));
}
