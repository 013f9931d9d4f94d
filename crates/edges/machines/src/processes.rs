//! Processes as /proc shows them.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The children of a process's main thread.
pub fn children(id: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// A process and its descendants.
pub fn family(id: u32) -> Vec<u32> {
    let mut found = vec![id];
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// The numbers of a process, from this process's namespace down to its own.
pub fn numbers(id: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The name of a process's program, cut to 15 characters by the kernel.
pub fn name(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Whether a process runs. A zombie, which waits for its parent to read its exit code, does not.
pub fn is_running(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    !state.is_empty() && !state.trim_start().starts_with(['Z', 'X'])
}

/// Sends a signal. A process that is gone is not an error.
pub fn signal(id: u32, signal: Signal) {
    if let Some(process) = Pid::from_raw(id.cast_signed()) {
        let _ = kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn family_has_grandchildren_and_numbers_start_with_this_namespace() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; true"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let own = std::process::id();
        // The kernel lists a child under the thread that started it, so the test asks for the family of the shell.
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
        assert!(is_running(own) && !is_running(child.id()));
        assert_eq!(family(child.id()).len(), 1, "it has ended");
    }
}
