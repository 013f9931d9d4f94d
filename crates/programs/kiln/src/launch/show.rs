//! What people read, and what programs do.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use kiln_engine::launch::{Collected, LaunchState, Leftover, Observer};
use kiln_types::{LAUNCH_DONE, LAUNCH_TAG, Machine, MachineState, Provisioning};
use serde_json::{Value, json};

/// Steps, for who looks at a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress;

impl Observer for Progress {
    fn begins(&self, what: &str) {
        progress(what);
    }
}

/// What is being done; only on a terminal.
pub(super) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        note(text);
    }
}

/// What people should know; programs find it on standard error.
pub(super) fn note(text: &str) {
    // Who closed standard error does not want to read it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn word(provisioning: &Provisioning) -> &str {
    match provisioning {
        Provisioning::Succeeded => "succeeded",
        Provisioning::InProgress(word) => word,
        Provisioning::Failed => "failed",
        Provisioning::Canceled => "canceled",
    }
}

pub(super) fn machines(owner: &str, machines: &[Machine]) -> (String, Value) {
    let mut text = String::new();
    let mut all = Vec::new();
    for machine in machines {
        let (state, vm) = match &machine.state {
            MachineState::Present { provisioning, vm_id } => (word(provisioning).to_owned(), vm_id.clone()),
            MachineState::Fragment => ("fragment".to_owned(), None),
        };
        let launch = machine.tags.get(LAUNCH_TAG).map_or("unknown", String::as_str);
        let known = if launch == LAUNCH_DONE { "known".to_owned() } else { format!("begun {launch}") };
        let _ = writeln!(text, "{}: {state}, {known}, {} parts", machine.name, machine.parts.len());
        all.push(json!({
            "name": machine.name, "state": state, "launch": launch, "vmId": vm, "parts": machine.parts, "tags": machine.tags,
        }));
    }
    if machines.is_empty() {
        let _ = writeln!(text, "`{owner}` has no machine here");
    }
    (text, json!({"owner": owner, "machines": all}))
}

pub(super) fn collected(collected: &Collected, pretend: bool) -> String {
    let mut text = String::new();
    let what = |leftover: &Leftover| {
        let kind = if leftover.whole { "machine" } else { "fragment" };
        let begun = leftover.begun.map_or_else(|| "at an unknown time".to_owned(), |at| at.to_string());
        format!("{} ({kind}, {} parts, begun {begun})", leftover.name, leftover.parts.len())
    };
    for leftover in &collected.removed {
        let _ = writeln!(text, "{}: {}", if pretend { "would remove" } else { "removed" }, what(leftover));
        for part in &leftover.parts {
            let _ = writeln!(text, "  {part}");
        }
    }
    for leftover in &collected.kept {
        let why = match leftover.launch {
            LaunchState::Recent => "kept, its launch may still go on",
            LaunchState::Undated => "kept, nobody says when it was begun",
            // What somebody knows of is no news.
            LaunchState::Complete | LaunchState::Abandoned => continue,
        };
        let _ = writeln!(text, "{why}: {}", what(leftover));
    }
    if text.is_empty() {
        text.push_str("nothing was left\n");
    }
    text
}
