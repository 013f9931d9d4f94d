//! Runs the rendered script with bash.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use kiln_aks_formats::nbv::{Field, Shape, Variables};
use kiln_aks_formats::shell;
use proptest::prelude::*;

/// Parses the output of `env -0`.
fn environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let entries = text.split('\0').filter_map(|entry| entry.split_once('='));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Evaluates assignments with bash.
fn evaluate(assignments: &str) -> BTreeMap<String, String> {
    let script = format!("set -o allexport\n{assignments}exec env -0\n");
    let output =
        Command::new("/bin/bash").arg("-c").arg(script).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    environment(&output.stdout)
}

fn any_value() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("'".to_owned()),
        Just("\"".to_owned()),
        Just("$(id)".to_owned()),
        Just("`id`".to_owned()),
        Just("\n".to_owned()),
        Just("#EOF".to_owned()),
        Just("\\".to_owned()),
        Just("!".to_owned()),
        Just("ö世".to_owned()),
        Just("\r\t".to_owned()),
        Just("${HOME}".to_owned()),
        Just("EOF\n".to_owned()),
        "[^\0]{0,8}",
    ];
    proptest::collection::vec(fragment, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_value_survives_bash(values in proptest::collection::vec(any_value(), 1..12)) {
        let mut assignments = String::new();
        for (index, value) in values.iter().enumerate() {
            assignments.push_str(&shell::assignment(&format!("KILN_{index}"), value).unwrap());
        }
        let environment = evaluate(&assignments);
        for (index, value) in values.iter().enumerate() {
            prop_assert_eq!(environment.get(&format!("KILN_{index}")), Some(value));
        }
    }
}

/// Variables with special characters in every string field.
fn hostile() -> Variables {
    let mut variables = Variables::default();
    for field in Field::ALL.into_iter().filter(|field| field.shape() == Shape::Text) {
        variables.set(field, format!("{field}: it's \"$HOME\" `id`\n#EOF\nö \\ ! end")).unwrap();
    }
    variables.set_certificates(vec!["YQ==".to_owned(), "a b".to_owned()]).unwrap();
    variables
}

/// Runs the script with its absolute paths below `root`, and returns the environment of the provisioning script.
fn run(variables: &Variables, root: &Path) -> BTreeMap<String, String> {
    let containers = root.join("opt/azure/containers");
    fs::create_dir_all(&containers).unwrap();
    fs::create_dir_all(root.join("var/log/azure")).unwrap();
    fs::write(containers.join("provision.sh"), "true\n#EOF\n").unwrap();
    let reached = root.join("reached");
    fs::write(containers.join("provision_start.sh"), format!("env -0 >'{}'\n", reached.display())).unwrap();
    let script = variables.script().unwrap();
    let (head, tail) = script.expose().split_once("set -o allexport\n").unwrap();
    let (assignments, start) = tail.rsplit_once("/usr/bin/nohup").unwrap();
    let relocate = |text: &str| {
        text.replace("/opt/azure", &format!("{}/opt/azure", root.display()))
            .replace("/var/log/azure", &format!("{}/var/log/azure", root.display()))
    };
    let script = format!("{}set -o allexport\n{assignments}/usr/bin/nohup{}", relocate(head), relocate(start));
    let path = root.join("custom-data");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let output = Command::new("/bin/bash")
        .arg(&path)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(root.join("opt/azure/manifest.json")).unwrap(), "#EOF\n");
    assert!(root.join("var/log/azure/Microsoft.Azure.Extensions.CustomScript/events").is_dir());
    environment(&fs::read(reached).unwrap())
}

#[test]
fn provisioning_script_receives_the_rendered_variables() {
    for variables in [Variables::default(), hostile()] {
        let root = tempfile::tempdir().unwrap();
        let mut reached = run(&variables, root.path());
        for shell_variable in ["PATH", "PWD", "OLDPWD", "SHLVL", "_"] {
            reached.remove(shell_variable);
        }
        assert_eq!(reached, variables.environment());
    }
}

#[test]
fn same_variables_give_the_same_bytes() {
    assert_eq!(hostile().script().unwrap(), hostile().script().unwrap());
    assert_eq!(hostile().custom_data().unwrap(), hostile().custom_data().unwrap());
}
