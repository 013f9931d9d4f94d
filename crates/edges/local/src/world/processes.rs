//! Processes, as /proc shows them.

use std::fs;

/// The children of a process.
pub(crate) fn children(id: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// A process and all that came from it.
pub(crate) fn family(id: u32) -> Vec<u32> {
    let mut found = vec![id];
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// The numbers of a process, from our own process namespace down to its own.
pub(crate) fn numbers(id: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// What a process is called.
pub(crate) fn name(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Whether a process is there and not only its code, which its parent has not asked for yet.
pub(crate) fn lives(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    !state.is_empty() && !state.trim_start().starts_with(['Z', 'X'])
}
