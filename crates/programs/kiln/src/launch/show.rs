//! Text and JSON formatting of results, and progress on standard error.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

use kiln_engine::launch::{Collected, LaunchState, Leftover, Observer};
use kiln_types::{LAUNCH_DONE, LAUNCH_TAG, Machine, MachineState, Provisioning};
use serde_json::{Value, json};

/// Prints each step if standard error is a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress;

impl Observer for Progress {
    fn begins(&self, step: &str) {
        progress(step);
    }
}

/// Prints progress if standard error is a terminal.
pub(super) fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        note(text);
    }
}

/// Prints a note to standard error.
pub(super) fn note(text: &str) {
    // A closed standard error is not an error.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn provisioning_state(provisioning: &Provisioning) -> &str {
    match provisioning {
        Provisioning::Succeeded => "succeeded",
        Provisioning::InProgress(state) => state,
        Provisioning::Failed => "failed",
        Provisioning::Canceled => "canceled",
    }
}

pub(super) fn machines(owner: &str, machines: &[Machine]) -> (String, Value) {
    let mut text = String::new();
    let mut all = Vec::new();
    for machine in machines {
        let (state, vm) = match &machine.state {
            MachineState::Present { provisioning, vm_id } => {
                (provisioning_state(provisioning).to_owned(), vm_id.clone())
            }
            MachineState::Fragment => ("fragment".to_owned(), None),
        };
        let launch = machine.tags.get(LAUNCH_TAG).map_or("unknown", String::as_str);
        let status = if launch == LAUNCH_DONE { "launched".to_owned() } else { format!("launch started {launch}") };
        let _ = writeln!(text, "{}: {state}, {status}, {} resources", machine.name, machine.parts.len());
        all.push(json!({
            "name": machine.name, "state": state, "launch": launch, "vmId": vm, "parts": machine.parts, "tags": machine.tags,
        }));
    }
    if machines.is_empty() {
        let _ = writeln!(text, "no machines of owner `{owner}`");
    }
    (text, json!({"owner": owner, "machines": all}))
}

pub(super) fn collected(collected: &Collected, dry_run: bool) -> String {
    let mut text = String::new();
    let describe = |leftover: &Leftover| {
        let kind = if leftover.whole { "machine" } else { "fragment" };
        let begun = leftover.begun.map_or_else(|| "at an unknown time".to_owned(), |at| at.to_string());
        format!("{} ({kind}, {} resources, launch started {begun})", leftover.name, leftover.parts.len())
    };
    for leftover in &collected.removed {
        let _ = writeln!(text, "{}: {}", if dry_run { "would delete" } else { "deleted" }, describe(leftover));
        for part in &leftover.parts {
            let _ = writeln!(text, "  {part}");
        }
    }
    for leftover in &collected.kept {
        let reason = match leftover.launch {
            LaunchState::Recent => "kept, its launch may still be running",
            LaunchState::Undated => "kept, its start time is unknown",
            // Completed launches are not reported.
            LaunchState::Complete | LaunchState::Abandoned => continue,
        };
        let _ = writeln!(text, "{reason}: {}", describe(leftover));
    }
    if text.is_empty() {
        text.push_str("nothing to delete\n");
    }
    text
}
