//! The start time of a trial.

use kiln_node_plan::DesiredFile;
use std::time::Duration;

use crate::os::Durability;
use serde::{Deserialize, Serialize};

use crate::node::Node;

/// On the clock of this boot, in `/run`: a restart of kilnd continues the trial, a reboot starts its time limit again.
const SINCE: &str = "/run/kiln/trial.json";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Since {
    hash: String,
    milliseconds: u64,
}

/// When the trial of a generation started; now, if it was not recorded.
pub(super) fn since(node: &Node, hash: &str, now: Duration) -> Duration {
    let read = node.root.read_if_exists(SINCE).ok().flatten();
    let written: Option<Since> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(since) = written.filter(|since| since.hash == hash) {
        return Duration::from_millis(since.milliseconds).min(now);
    }
    let milliseconds = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let bytes = serde_json::to_vec(&Since { hash: hash.to_owned(), milliseconds }).expect("string keys");
    if let Err(error) = node.root.write_all(&[DesiredFile::new(SINCE, &bytes, 0o600)], Durability::Later) {
        node.log.warn(format!("cannot record the start of the trial, so a restart of kilnd would extend it: {error}"));
    }
    now
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

    #[test]
    fn trial_continues_across_restarts_and_starts_again_after_a_reboot_or_for_another_document() {
        let folder = tempfile::tempdir().expect("a folder");
        let seconds = Duration::from_secs;
        assert_eq!(since(&node(folder.path()), "a", seconds(100)), seconds(100));
        assert_eq!(since(&node(folder.path()), "a", seconds(130)), seconds(100));
        assert_eq!(since(&node(folder.path()), "b", seconds(140)), seconds(140));
        assert_eq!(since(&node(folder.path()), "b", seconds(20)), seconds(20), "the clock was reset");
        std::fs::remove_dir_all(folder.path().join("run")).expect("removed");
        assert_eq!(since(&node(folder.path()), "b", seconds(150)), seconds(150));
    }
}
