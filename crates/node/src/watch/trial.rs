//! Since when a generation is on trial.

use std::time::Duration;

use kiln_host::{Durability, Placed};
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
