//! Man pages and shell completions.

use std::process::Command;

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

#[test]
fn every_command_has_a_man_page_with_its_examples() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(kiln().arg("man").arg(folder.path()).status().expect("kiln runs").success());
    let page = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(page("kiln.1").contains("demo"));
    assert!(page("kiln-demo.1").contains("kiln demo \\-\\-speed instant"));
    assert!(page("kiln-sim-serve.1").contains("\\-\\-state"));
}

#[test]
fn a_missing_folder_is_an_error_that_names_it() {
    let output = kiln().args(["man", "/nowhere/at/all"]).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("/nowhere/at/all: no such folder") && error.contains("mkdir -p /nowhere"), "{error}");
}

#[test]
fn completion_scripts_contain_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = kiln().args(["completions", shell]).output().expect("kiln runs");
        assert!(output.status.success(), "{shell}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("demo"), "{shell}");
    }
}
