//! Since when a generation is on trial.

use std::time::Duration;

use crate::os::{Durability, Placed};
use serde::{Deserialize, Serialize};

use crate::node::Node;

/// The time on this boot's clock, on a file system that no restart survives: a restart of the program does not begin a trial anew, and one
/// of the machine does.
const SINCE: &str = "/run/kiln/trial.json";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Since {
    hash: String,
    milliseconds: u64,
}

/// Since when a generation is on trial.
pub(super) fn since(node: &Node, hash: &str, now: Duration) -> Duration {
    let read = node.root.read_if_there(SINCE).ok().flatten();
    let written: Option<Since> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if let Some(since) = written.filter(|since| since.hash == hash) {
        return Duration::from_millis(since.milliseconds).min(now);
    }
    let milliseconds = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let bytes = serde_json::to_vec(&Since { hash: hash.to_owned(), milliseconds }).expect("text for names");
    if let Err(error) = node.root.write_all(&[Placed::new(SINCE, &bytes, 0o600)], Durability::Later) {
        node.journal.warn(format!("a restart of kilnd would begin this trial anew: {error}"));
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
        Node::open(&args.places).expect("a root")
    }

    #[test]
    fn a_trial_goes_on_through_a_restart_of_the_program_and_begins_anew_with_the_machine_or_another_document() {
        let folder = tempfile::tempdir().expect("a folder");
        let seconds = Duration::from_secs;
        assert_eq!(since(&node(folder.path()), "a", seconds(100)), seconds(100));
        assert_eq!(since(&node(folder.path()), "a", seconds(130)), seconds(100));
        assert_eq!(since(&node(folder.path()), "b", seconds(140)), seconds(140));
        assert_eq!(since(&node(folder.path()), "b", seconds(20)), seconds(20), "a clock that began anew");
        std::fs::remove_dir_all(folder.path().join("run")).expect("what does not survive a restart");
        assert_eq!(since(&node(folder.path()), "b", seconds(150)), seconds(150));
    }
}
