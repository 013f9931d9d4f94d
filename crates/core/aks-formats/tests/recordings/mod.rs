//! One test per recorded table, and a test that no recorded file is forgotten.

mod anc;
mod karpenter;

use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::recordings::golden;

fn recorded(name: &str) -> Value {
    read(&golden().join(name))
}

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases(name: &str) -> Vec<Value> {
    recorded(name)["cases"].as_array().expect("cases").clone()
}

fn files_in(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden().join(folder)).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    assert!(!files.is_empty(), "{folder} has no files that end with {ending}");
    files
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn every_recorded_file_of_this_crate_is_read_by_a_test() {
    let tests = [include_str!("anc.rs"), include_str!("karpenter.rs")].concat();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // kiln-bootstrap decides about drift, and its tests read that table.
        if name.starts_with("anc-") || (name.starts_with("karp-") && name != "karp-drift.json") {
            assert!(tests.contains(&format!("\"{name}\"")), "no test reads {name}");
        }
    }
}
