//! Man pages and completions.

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
fn a_folder_that_is_not_there_is_named() {
    let output = kiln().args(["man", "/nowhere/at/all"]).output().expect("kiln runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nowhere/at/all: there is no such folder") && said.contains("mkdir -p /nowhere"), "{said}");
}

#[test]
fn each_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = kiln().args(["completions", shell]).output().expect("kiln runs");
        assert!(output.status.success(), "{shell}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("demo"), "{shell}");
    }
}
