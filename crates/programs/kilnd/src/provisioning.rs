//! Reports to the platform that the machine is provisioned, or why it is not, where no other agent does.
//!
//! Azure waits for such a report of every new machine. waagent and cloud-init send it; on an image without them kilnd has to. A
//! pre-provisioned machine reports twice: when it is ready to be assigned, and when it is provisioned.

use std::time::Duration;

use kiln_node_plan::DesiredFile;
use kiln_node_plan::check_image::agents::provisioning_agent;
use serde::{Deserialize, Serialize};

use crate::boot::kind::BootKind;
use crate::log::error_line;
use crate::node::Node;
use crate::os::Durability;
use crate::redact::Redactor;
use crate::sources::{self, Health, Rules, Wait as _};

/// The chassis asset tag of every Azure VM.
const AZURE: &str = "7783-7084-3265-9085-8269-3286-77";
/// Exists once the report of this boot was accepted.
const REPORTED: &str = "/run/kiln/reported";
/// The VM id of a pre-provisioned machine that has reported that it can be assigned. On the disk: it may be assigned after a restart.
const PREPROVISIONED: &str = "/var/lib/kiln/preprovisioned";
/// The last failed attempt of this boot.
const FAILURE: &str = "/run/kiln/failure.json";
/// The time limit of a report that the caller repeats.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A failure that may pass is reported before Azure's own limit of 20 minutes.
const PATIENCE: Duration = Duration::from_mins(15);
/// The shortest time between two reports or console lines: systemd repeats `kilnd boot` every two seconds.
const PAUSE: Duration = Duration::from_mins(1);
/// When an unchanged failure is shown on the console again.
const REMINDER: Duration = Duration::from_mins(10);

/// The last failed attempt to boot as a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failure {
    pub sentence: String,
    /// The first failure, in seconds since boot.
    pub since: u64,
    /// When the sentence was shown on the console last.
    pub shown: Option<u64>,
    /// When a failure was reported to the platform last, and which.
    pub reported: Option<u64>,
    pub reported_sentence: String,
}

/// What to do about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub show: bool,
    pub report: bool,
}

impl Failure {
    /// Decides what to do about a failure at `now`, in seconds since boot. `is_final` if the machine needs another document or image.
    pub fn next(&self, sentence: &str, now: u64, is_final: bool) -> Announcement {
        let since = |at: Option<u64>| at.map(|at| Duration::from_secs(now.saturating_sub(at)));
        let is_due = |at: Option<u64>, is_new: bool| match since(at) {
            None => true,
            Some(passed) if is_new => passed >= PAUSE,
            Some(passed) => passed >= REMINDER,
        };
        let lasted = if self.sentence.is_empty() { 0 } else { now.saturating_sub(self.since) };
        let is_due_to_report = match since(self.reported) {
            None => true,
            Some(passed) => self.reported_sentence != sentence && passed >= PAUSE,
        };
        Announcement {
            show: is_due(self.shown, self.sentence != sentence),
            report: (is_final || Duration::from_secs(lasted) >= PATIENCE) && is_due_to_report,
        }
    }
}

/// Whether kilnd reports: `spec.platform.reportReady` decides, else kilnd reports on Azure if no other agent does.
pub fn is_reporter(node: &Node, setting: Option<bool>) -> bool {
    setting.unwrap_or_else(|| is_azure(node) && provisioning_agent(&node.root).is_none())
}

fn is_azure(node: &Node) -> bool {
    let tag = std::fs::read_to_string(node.endpoints.dmi.join("chassis_asset_tag"));
    tag.is_ok_and(|tag| tag.trim() == AZURE)
}

/// Whether this boot still has to report. A machine reports once, in its first boot.
pub fn is_due(node: &Node) -> bool {
    let is_again = node.boot().ok().flatten().is_some_and(|boot| boot.kind == BootKind::Again);
    !is_again && node.root.kind(REPORTED).ok().flatten().is_none()
}

/// Reports that the machine is provisioned. Returns whether the wire server accepted it.
pub fn report_ready(node: &Node) -> bool {
    match sources::report(&node.endpoints, &Health::Ready, Rules::WIRE.within(TIMEOUT), &node.wait, 0) {
        Ok(()) => {
            node.log.info("reported to the wire server that the machine is provisioned");
            // It identifies this machine and is not needed any more.
            let _ = node.root.remove(PREPROVISIONED, Durability::Later);
            // If this fails, a restart of kilnd reports again, which is harmless.
            let _ = node.root.write_all(&[DesiredFile::new(REPORTED, b"", 0o600)], Durability::Later);
            true
        }
        Err(error) => {
            node.log.info(&format!("cannot report to the wire server: {}", error_line(&error)));
            false
        }
    }
}

/// Reports that a pre-provisioned machine can be assigned, once per machine. Returns whether nothing is left to do.
pub fn report_preprovisioned(node: &Node) -> bool {
    let machine = sources::vm_id(&node.endpoints).map(String::from).unwrap_or_default();
    let recorded = node.root.read_if_exists(PREPROVISIONED).ok().flatten().unwrap_or_default();
    let is_reported = !recorded.is_empty() && String::from_utf8_lossy(&recorded).trim() == machine;
    if is_reported || !is_reporter(node, None) {
        return true;
    }
    match sources::report(&node.endpoints, &Health::Ready, Rules::WIRE.once(), &node.wait, 0) {
        Ok(()) => {
            node.log.info("reported to the wire server that the machine can be assigned");
            let line = format!("{machine}\n");
            let _ = node.root.write_all(&[DesiredFile::new(PREPROVISIONED, line, 0o600)], Durability::Later);
            true
        }
        // The network may not be up yet.
        Err(_) => false,
    }
}

/// Shows a failed boot on the console, and reports it to the platform if it is final or lasts. Costs nothing unless a boot fails.
pub fn announce_failure(node: &Node, sentence: &str, is_final: bool) {
    let now = node.wait.now().as_secs();
    let stored = node.root.read_if_exists(FAILURE).ok().flatten();
    let mut failure: Failure = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let sentence = Redactor::of_node(node).line(sentence);
    let next = failure.next(&sentence, now, is_final);
    if failure.sentence.is_empty() {
        failure.since = now;
    }
    if next.show {
        show(node, &sentence);
        failure.shown = Some(now);
    }
    if next.report && is_due(node) && is_reporter(node, None) {
        let health = Health::Failed(&sentence);
        match sources::report(&node.endpoints, &health, Rules::WIRE.once(), &node.wait, 0) {
            Ok(()) => {
                node.log.info("reported the failure to the wire server");
                failure.reported = Some(now);
                failure.reported_sentence.clone_from(&sentence);
            }
            Err(error) => node.log.info(&format!("cannot report to the wire server: {}", error_line(&error))),
        }
    }
    failure.sentence = sentence;
    let bytes = serde_json::to_vec(&failure).unwrap_or_default();
    if let Err(error) = node.root.write_all(&[DesiredFile::new(FAILURE, &bytes, 0o600)], Durability::Later) {
        node.log.info(&format!("cannot record the failure: {error}"));
    }
}

/// Writes a sentence to the journal as an error, and to the console.
pub fn show(node: &Node, sentence: &str) {
    node.log.error(sentence);
    if node.root.is_host() {
        // A machine may have no console.
        let _ = crate::os::console::print(&format!("kilnd: {sentence}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Announcement = Announcement { show: false, report: false };
    const BOTH: Announcement = Announcement { show: true, report: true };

    fn after(sentence: &str, since: u64, shown: u64, reported: Option<u64>) -> Failure {
        Failure {
            sentence: sentence.to_owned(),
            since,
            shown: Some(shown),
            reported,
            reported_sentence: reported.map(|_| sentence.to_owned()).unwrap_or_default(),
        }
    }

    #[test]
    fn final_failure_is_shown_and_reported_once() {
        assert_eq!(Failure::default().next("bad document", 5, true), BOTH);
        for now in [7, 60, 300] {
            assert_eq!(after("bad document", 5, 5, Some(5)).next("bad document", now, true), NOTHING, "{now}");
        }
        let reminder = Announcement { show: true, report: false };
        assert_eq!(after("bad document", 5, 5, Some(5)).next("bad document", 605, true), reminder);
    }

    #[test]
    fn another_failure_is_announced_at_most_once_per_minute() {
        let last = after("bad document", 5, 5, Some(5));
        assert_eq!(last.next("another", 64, true), NOTHING);
        assert_eq!(last.next("another", 65, true), BOTH);
    }

    #[test]
    fn failure_that_may_pass_is_reported_before_azure_gives_up() {
        let first = Announcement { show: true, report: false };
        assert_eq!(Failure::default().next("no document", 300, false), first);
        assert!(!after("no document", 300, 300, None).next("no document", 1199, false).report);
        assert!(after("no document", 300, 300, None).next("no document", 1200, false).report);
    }

    #[test]
    fn report_that_was_not_accepted_is_repeated() {
        assert!(after("bad document", 5, 5, None).next("bad document", 7, true).report);
    }
}
