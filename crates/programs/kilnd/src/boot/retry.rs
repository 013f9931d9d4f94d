//! The pause before systemd starts a failed `kilnd boot` again.
//!
//! A rejected document is usually the same two seconds later. Without a growing pause a fleet with a bad document would query the metadata
//! service, and write to the journal, for ever. systemd has such a setting only since version 254. `systemctl restart kiln-config` ends the
//! pause.

use std::time::Duration;

use kiln_node_plan::DesiredFile;

use super::BootError;
use crate::node::Node;
use crate::os::Durability;
use crate::sources::Wait as _;

/// The number of consecutive failures, in `/run`.
const FAILURES: &str = "/run/kiln/boot-failures";
/// The longest pause: a corrected document should not wait longer.
const LONGEST: Duration = Duration::from_mins(5);

/// The pause after this many consecutive failures, in addition to `RestartSec=`.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(2) {
        None => Duration::ZERO,
        Some(more) => Duration::from_secs(2 << more.min(16)).min(LONGEST),
    }
}

/// Waits after a failure whose cause only a changed document or image can remove. Other failures, such as a metadata service that does not
/// answer, have their own time limits.
pub fn wait(node: &Node, error: &BootError) {
    if !node.root.is_host() || !matches!(error, BootError::Rejected { .. } | BootError::Apply(_)) {
        return;
    }
    let read = node.root.read_if_exists(FAILURES).ok().flatten().unwrap_or_default();
    let failures = String::from_utf8_lossy(&read).trim().parse::<u32>().unwrap_or(0).saturating_add(1);
    // If this fails, the pauses are shorter.
    let _ = node.root.write_all(&[DesiredFile::new(FAILURES, failures.to_string(), 0o600)], Durability::Later);
    let pause = pause(failures);
    if !pause.is_zero() {
        node.log.info(&format!("failed {failures} times; the next attempt is in {} s", pause.as_secs()));
        node.wait.sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let seconds: Vec<u64> = (0..12).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }
}
