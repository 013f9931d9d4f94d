//! The start of a trial, kept across restarts of kilnd.

use std::time::Duration;

use kiln_node_plan::DesiredFile;
use serde::{Deserialize, Serialize};

use crate::node::Node;
use crate::os::Durability;

/// On the clock of this boot, in `/run`: a restart of kilnd continues the trial, a reboot starts its time limit again.
const FILE: &str = "/run/kiln/trial.json";

/// The start of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TrialStart {
    /// The hash of the document.
    pub(super) hash: String,
    /// Since when the time limit counts.
    milliseconds: u64,
    /// Whether the node was Ready before the change; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) was_ready: Option<bool>,
    /// Whether the API server has answered since the change.
    #[serde(default)]
    pub(super) has_answered: bool,
}

impl TrialStart {
    /// The start of the last trial, which may have ended while kilnd did not run.
    pub(super) fn recorded(node: &Node) -> Option<Self> {
        let read = node.root.read_if_exists(FILE).ok().flatten();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
    }

    /// The recorded start of the trial of a document. If there is none, the trial starts now and is recorded.
    pub(super) fn load(node: &Node, hash: &str, now: Duration, was_ready: Option<bool>) -> Self {
        if let Some(start) = Self::recorded(node).filter(|start| start.hash == hash) {
            return start;
        }
        let start = Self { hash: hash.to_owned(), milliseconds: milliseconds(now), was_ready, has_answered: false };
        start.save(node);
        start
    }

    /// Forgets the last trial: another one of the same document has its own time limit.
    pub(super) fn forget(node: &Node) {
        if let Err(error) = node.root.remove(FILE, Durability::Later) {
            node.log.warn(format!("cannot remove the start of the last trial: {error}"));
        }
    }

    /// Since when the time limit counts. Never in the future: the clock starts again with each boot.
    pub(super) fn since(&self, now: Duration) -> Duration {
        Duration::from_millis(self.milliseconds).min(now)
    }

    /// Records a later start of the time limit.
    pub(super) fn set_since(&mut self, node: &Node, since: Duration) {
        if milliseconds(since) > self.milliseconds {
            self.milliseconds = milliseconds(since);
            self.save(node);
        }
    }

    /// Records that the API server has answered.
    pub(super) fn set_answered(&mut self, node: &Node) {
        self.has_answered = true;
        self.save(node);
    }

    fn save(&self, node: &Node) {
        let bytes = serde_json::to_vec(self).expect("string keys");
        if let Err(error) = node.root.write_all(&[DesiredFile::new(FILE, &bytes, 0o600)], Durability::Later) {
            node.log
                .warn(format!("cannot record the start of the trial, so a restart of kilnd would extend it: {error}"));
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};

    fn node(root: &std::path::Path) -> Node {
        let words = ["watch".into(), "--root".into(), root.as_os_str().to_owned()];
        let args = Args::parse(words).expect("a command line");
        assert_eq!(args.command, Command::Watch);
        Node::open(&args.locations).expect("a root")
    }

    fn since(root: &std::path::Path, hash: &str, now: Duration) -> Duration {
        TrialStart::load(&node(root), hash, now, None).since(now)
    }

    #[test]
    fn trial_continues_across_restarts_and_starts_again_after_a_reboot_or_for_another_document() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, seconds) = (folder.path(), Duration::from_secs);
        assert_eq!(since(root, "a", seconds(100)), seconds(100));
        assert_eq!(since(root, "a", seconds(130)), seconds(100));
        assert_eq!(since(root, "b", seconds(140)), seconds(140));
        assert_eq!(since(root, "b", seconds(20)), seconds(20), "the clock was reset");
        std::fs::remove_dir_all(root.join("run")).expect("removed");
        assert_eq!(since(root, "b", seconds(150)), seconds(150));
        TrialStart::forget(&node(root));
        assert_eq!(since(root, "b", seconds(160)), seconds(160), "another trial of the same document");
        TrialStart::forget(&node(root));
        TrialStart::forget(&node(root));
    }

    #[test]
    fn readiness_before_the_change_and_a_later_start_survive_restarts() {
        let folder = tempfile::tempdir().expect("a folder");
        let (node, seconds) = (node(folder.path()), Duration::from_secs);
        let mut start = TrialStart::load(&node, "a", seconds(100), Some(false));
        start.set_since(&node, seconds(90));
        assert_eq!(start.since(seconds(200)), seconds(100), "never earlier");
        start.set_since(&node, seconds(150));
        let again = TrialStart::load(&node, "a", seconds(200), Some(true));
        assert_eq!((again.since(seconds(200)), again.was_ready), (seconds(150), Some(false)));
    }
}
