//! Checks the reference of the embedded Azure: its rules name existing tests, and its tables list the keys of the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_sim_azure::{FaultPlan, WorldSpec};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/reference/embedded-azure.md");

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of each table row below headings with this prefix, without the header rows.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let sections = page.split("\n## ").filter(|section| section.starts_with(heading));
    let tables = sections.flat_map(|section| {
        let lines = section.lines().filter(|line| line.starts_with('|'));
        lines.skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
    });
    tables.collect()
}

/// The texts between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// The names of all tests below a folder.
fn tests(folder: &Path) -> BTreeSet<String> {
    let mut texts = Vec::new();
    sources(folder, &mut texts);
    let mut names = BTreeSet::new();
    for text in texts {
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some((_, rest)) = line.split_once("fn ") {
                if let (true, Some((name, _))) = (marked, rest.split_once('(')) {
                    names.insert(name.to_owned());
                }
                marked = false;
            }
        }
    }
    names
}

/// The errors in the tables of rules, given the names of all tests.
fn errors_in(page: &str, known: &BTreeSet<String>) -> Vec<String> {
    let mut errors = Vec::new();
    for row in rows(page, "Rules: ") {
        let [rule, source, shown] = row[..] else {
            errors.push(format!("not three cells: {row:?}"));
            continue;
        };
        if !["ran", "read: ", "inferred", "ours"].iter().any(|word| source.starts_with(word)) {
            errors.push(format!("unknown source `{source}` of: {rule}"));
        }
        let names = quoted(shown);
        if names.is_empty() {
            errors.push(format!("no test for: {rule}"));
        }
        errors.extend(names.iter().filter(|name| !known.contains(**name)).map(|name| format!("no such test: {name}")));
    }
    errors
}

#[test]
fn rules_name_a_source_and_an_existing_test() {
    let known = tests(&crates());
    let errors = errors_in(PAGE, &known);
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(rows(PAGE, "Rules: ").len() > 60, "the tables were not found");
}

#[test]
fn scenarios_of_real_clients_are_named_by_rules() {
    let named: BTreeSet<&str> = rows(PAGE, "Rules: ").iter().flat_map(|row| quoted(row[2])).collect();
    let folder = crates().join("programs/kiln/tests");
    for clients in ["sdk_clients", "az_clients"] {
        let scenarios = tests(&folder.join(clients));
        assert!(!scenarios.is_empty());
        for scenario in scenarios {
            assert!(named.contains(scenario.as_str()), "no rule names {scenario}");
        }
    }
}

#[test]
fn missing_and_unknown_tests_are_detected() {
    let page = "# x\n\n## Rules: x\n\n| rule | source | test |\n|---|---|---|\n| a | ran | `here` |\n| b | ran | |\n| c | heard | `gone` |\n";
    let known = BTreeSet::from(["here".to_owned()]);
    assert_eq!(errors_in(page, &known), ["no test for: b", "unknown source `heard` of: c", "no such test: gone"]);
}

#[test]
fn exactly_the_keys_of_the_world_file_are_documented() {
    let documented: BTreeSet<&str> = rows(PAGE, "The world file").iter().flat_map(|row| quoted(row[0])).collect();
    let Ok(Value::Object(world)) = serde_json::to_value(WorldSpec::default()) else {
        panic!("a world file is an object")
    };
    let keys: BTreeSet<&str> = world.keys().map(String::as_str).collect();
    assert_eq!(documented, keys);
    let section = PAGE.split("\n## ").find(|section| section.starts_with("The world file")).unwrap();
    let words: BTreeSet<&str> = quoted(section).into_iter().collect();
    let Some(Value::Object(profile)) = world.get("profile") else { panic!("a profile is an object") };
    for (key, default) in profile {
        assert!(words.contains(key.as_str()), "the profile's `{key}` is not documented");
        if let Some(seconds) = default.as_f64() {
            assert!(section.contains(&format!("`{key}` {seconds}")), "the default of `{key}` is {seconds}");
        }
    }
    let Some(Value::Object(pool)) = world["pools"].get(0) else { panic!("a pool is an object") };
    for key in pool.keys() {
        assert!(words.contains(key.as_str()), "the pool's `{key}` is not documented");
    }
}

#[test]
fn fault_kinds_have_rules_and_fault_keys_are_documented() {
    let rules = rows(PAGE, "Rules: faults");
    let documented: BTreeSet<&str> =
        rules.iter().filter(|row| row[0].starts_with('`')).flat_map(|row| quoted(row[0])).collect();
    // The parser lists all kinds in the error about an unknown one.
    let error = FaultPlan::parse("plan", "faults: [{kind: misspelt}]").unwrap_err();
    let list =
        error.lines().next().and_then(|line| line.split_once("expected one of ")).unwrap_or_else(|| panic!("{error}"));
    let kinds: BTreeSet<&str> = list.1.split(", ").collect();
    assert_eq!(documented, kinds);
    for row in rows(PAGE, "The fault file") {
        let (key, default) = (quoted(row[0])[0], row[1].trim_matches('`'));
        let value = match default {
            "required" => continue,
            "no action" => "start",
            other => other,
        };
        let plan = format!("faults: [{{kind: preempted, {key}: '{value}'}}]").replace("'0'", "0").replace("'1'", "1");
        let parsed = FaultPlan::parse("plan", &plan).unwrap_or_else(|error| panic!("{plan}: {error}"));
        if default != "no action" {
            assert_eq!(
                parsed,
                FaultPlan::parse("plan", "faults: [{kind: preempted}]").unwrap(),
                "the default of `{key}` is {default}"
            );
        }
    }
}
