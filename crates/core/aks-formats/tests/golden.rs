//! Compares with recordings of AKS and Karpenter. The crate's unit tests cover the same behaviour without recordings.

mod anc;
mod karpenter;

use std::path::{Path, PathBuf};

use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/golden");

/// A recorded file; none where the folder is not there.
fn recorded(name: &str) -> Option<Value> {
    let folder = Path::new(FOLDER);
    folder.is_dir().then(|| read(&folder.join(name)))
}

fn read(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases(name: &str) -> Vec<Value> {
    recorded(name).map_or_else(Vec::new, |file| file["cases"].as_array().expect("cases").clone())
}

fn files_in(folder: &str, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(Path::new(FOLDER).join(folder)) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    assert!(!files.is_empty(), "{folder} contains no files that end with {ending}");
    files
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn every_recording_is_used() {
    let Ok(entries) = std::fs::read_dir(FOLDER) else { return };
    let tests = [include_str!("anc/mod.rs"), include_str!("karpenter/mod.rs")].concat();
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Drift is decided by kiln-bootstrap, whose tests read that table.
        if name != "index.md" && name != "karp-drift.json" {
            assert!(tests.contains(&format!("\"{name}\"")), "{name} is read by a test");
        }
    }
}
