//! Processes, as /proc shows them.

use std::fs;

/// The children of a process.
pub(super) fn children(id: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// A process and all that came from it.
pub(super) fn family(id: u32) -> Vec<u32> {
    let mut found = vec![id];
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Whether a process runs. One that ended and was not asked for its code has no command line left.
pub(super) fn runs(id: u32) -> bool {
    fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// The numbers of a process, from our own process namespace down to its own.
pub(super) fn numbers(id: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// What a process is called.
pub(super) fn name(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_family_holds_grandchildren_and_numbers_start_with_our_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; true"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let own = std::process::id();
        // A child of a thread is listed under that thread: the family of the shell is what can be looked at from here.
        let mut names = Vec::new();
        for _ in 0..1000 {
            names = family(child.id()).into_iter().map(name).collect();
            if names.iter().any(|name| name == "cat") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(names, ["sh", "cat"]);
        assert_eq!(numbers(own).first(), Some(&own));
        assert!(family(child.id()).len() == 1, "it has ended");
    }
}
