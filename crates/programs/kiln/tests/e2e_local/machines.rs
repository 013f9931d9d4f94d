//! The machines of a sandbox, as `kiln local` reports them.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use super::inside::KILN;

/// Runs kiln, which must succeed, and returns its JSON output.
#[track_caller]
pub(crate) fn kiln(words: &[&str]) -> Value {
    let output = Command::new(KILN).args(words).args(["--output", "json"]).output().expect("kiln runs");
    assert!(output.status.success(), "kiln {}: {}", words.join(" "), output_of(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output_of(&output)))
}

/// The output of a program, of both streams.
pub(crate) fn output_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The machines, by node name.
#[track_caller]
pub(crate) fn machines() -> BTreeMap<String, Value> {
    let status = kiln(&["local", "status"]);
    let all = status["machines"].as_array().cloned().unwrap_or_default();
    all.into_iter().map(|machine| (text(&machine, "computerName"), machine)).collect()
}

/// A string field.
#[track_caller]
pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}
