//! The machines of a world, as `kiln local` shows them, and what they say from the inside.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

use super::inside::KILN;

/// Runs kiln, which must succeed, and gives what it answered.
#[track_caller]
pub(crate) fn kiln(words: &[&str]) -> Value {
    let output = Command::new(KILN).args(words).args(["--output", "json"]).output().expect("kiln runs");
    assert!(output.status.success(), "kiln {}: {}", words.join(" "), said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
}

/// What a program said, on either stream.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The machines by the names of their nodes.
#[track_caller]
pub(crate) fn machines() -> BTreeMap<String, Value> {
    let status = kiln(&["local", "status"]);
    let all = status["machines"].as_array().cloned().unwrap_or_default();
    all.into_iter().map(|machine| (text(&machine, "computerName"), machine)).collect()
}

/// A field that is a text.
#[track_caller]
pub(crate) fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}")).to_owned()
}
