//! Replacing nodes that run another version than new nodes get: which, in what order, how many at a time.

use std::collections::BTreeSet;
use std::fmt;

use kiln_types::{DefinitionName, Instance, InstanceId, Provisioning, VersionNumber};
use serde::Serialize;

use crate::donor::NodeFacts;
use crate::latest::{source_text, version_of};

/// How many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// How many nodes the pool may have beyond what it should.
    pub surge: u32,
    /// How many of the nodes that it should have may be missing.
    pub max_unavailable: u32,
    /// All old nodes go at once and without a drain, for when every one of them is harmful.
    pub all_at_once: bool,
}

/// One more and none missing: the slowest pace, which no workload notices.
impl Default for Pace {
    fn default() -> Self {
        Self { surge: 1, max_unavailable: 0, all_at_once: false }
    }
}

/// A pace at which nothing can move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "with `--surge 0` and `--max-unavailable 0` no node can be replaced; raise one of them, or say `--all-at-once`"
)]
pub struct NoPace;

impl Pace {
    /// Checks that something can move.
    pub fn check(self) -> Result<Self, NoPace> {
        if self.surge > 0 || self.max_unavailable > 0 || self.all_at_once { Ok(self) } else { Err(NoPace) }
    }
}

/// A refresh as it stands.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// How many nodes the pool should have when it is over: what it had when it began.
    pub wanted: u32,
    /// How many it is told to have now.
    pub capacity: u32,
    /// What new nodes get.
    pub target: &'a VersionNumber,
    pub line: &'a DefinitionName,
    /// Versions that were taken back: their nodes go first.
    pub bad: &'a BTreeSet<VersionNumber>,
    pub instances: &'a [Instance],
    pub nodes: &'a [NodeFacts],
    /// The node that this program runs on.
    pub own_node: Option<&'a str>,
    /// How many at a time.
    pub pace: Pace,
}

/// An instance that runs something else than new nodes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outdated {
    pub instance: InstanceId,
    pub node: String,
    /// What it runs.
    pub runs: String,
    /// Whether that was taken back.
    pub bad: bool,
    /// Whether pods can run there.
    pub available: bool,
    /// Why it stays all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<&'static str>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Next {
    /// Every node that can be replaced is.
    Done {
        /// Those that cannot.
        left: Vec<Outdated>,
    },
    /// Look again later.
    Wait {
        /// What for.
        why: String,
    },
    /// Change the pool, then look again.
    Batch(Batch),
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// So many more instances, first.
    pub add: u32,
    /// These go.
    pub remove: Vec<Outdated>,
    /// Whether they are drained before.
    pub drain: bool,
}

/// The instances that run something else, in the order in which they go: what was taken back, then where no pod can run, then the oldest.
pub fn outdated(state: State<'_>) -> Vec<Outdated> {
    let staying = state.instances.iter().filter(|instance| !is_leaving(instance));
    let mut all: Vec<(Option<&VersionNumber>, u64, Outdated)> = staying
        .filter_map(|instance| {
            let version = version_of(&instance.runs, state.line);
            if version == Some(state.target) {
                return None;
            }
            let stays = if state.own_node == Some(instance.node_name.as_str()) {
                Some("this program runs on it")
            } else if instance.protection.from_scale_in || instance.protection.from_pool_actions {
                Some("it is protected")
            } else {
                None
            };
            let outdated = Outdated {
                instance: instance.id.clone(),
                node: instance.node_name.clone(),
                runs: version.map_or_else(|| source_text(&instance.runs), ToString::to_string),
                bad: version.is_some_and(|version| state.bad.contains(version)),
                available: is_available(instance, state.nodes),
                stays,
            };
            Some((version, instance.id.as_str().parse().unwrap_or(u64::MAX), outdated))
        })
        .collect();
    all.sort_by(|(a_version, a_number, a), (b_version, b_number, b)| {
        let first = |outdated: &Outdated| (!outdated.bad, outdated.available);
        // What is of no version is older than the first version.
        (first(a), a_version, a_number, &a.instance).cmp(&(first(b), b_version, b_number, &b.instance))
    });
    all.into_iter().map(|(_, _, outdated)| outdated).collect()
}

/// The next change of a refresh, from how the pool is now. Nothing is remembered between two calls.
pub fn next_batch(state: State<'_>) -> Next {
    let (left, mut old): (Vec<Outdated>, Vec<Outdated>) =
        outdated(state).into_iter().partition(|outdated| outdated.stays.is_some());
    let staying: Vec<&Instance> = state.instances.iter().filter(|instance| !is_leaving(instance)).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // Instances that were asked for and do not show yet come from the target too.
    let total = state.capacity.max(count(staying.len()));
    let new = total - count(old.len()) - count(left.len());
    let missing = state.wanted.saturating_sub(new + count(left.len()));

    if state.pace.all_at_once && !old.is_empty() {
        return Next::Batch(Batch { add: 0, remove: old, drain: false });
    }
    let add = missing.min((state.wanted + state.pace.surge).saturating_sub(total));
    let available = count(staying.iter().filter(|instance| is_available(instance, state.nodes)).count());
    let least = state.wanted.saturating_sub(state.pace.max_unavailable);
    let mut may_go = available.saturating_sub(least);
    let outstanding = old.len();
    old.retain(|outdated| {
        if !outdated.available {
            return true;
        }
        let goes = may_go > 0;
        may_go = may_go.saturating_sub(1);
        goes
    });
    if add > 0 || !old.is_empty() {
        return Next::Batch(Batch { add, remove: old, drain: true });
    }
    let leaving = state.instances.len() - staying.len();
    // What stays as it is may stay unwell.
    let unwell = count(left.iter().filter(|outdated| !outdated.available).count());
    let unready = total.saturating_sub(available + unwell);
    match (outstanding, leaving) {
        (0, 0) if unready == 0 => Next::Done { left },
        (0, leaving) if leaving > 0 && unready == 0 => Next::Wait { why: format!("{leaving} instances to be gone") },
        _ => Next::Wait { why: format!("{unready} nodes to be Ready") },
    }
}

fn is_leaving(instance: &Instance) -> bool {
    matches!(&instance.provisioning, Provisioning::InProgress(word) if word.eq_ignore_ascii_case("deleting"))
}

fn is_available(instance: &Instance, nodes: &[NodeFacts]) -> bool {
    nodes.iter().any(|node| node.name == instance.node_name && node.ready && !node.cordoned)
}

impl fmt::Display for Outdated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs {}", self.node, self.runs)?;
        if self.bad {
            f.write_str(", which was taken back")?;
        }
        match self.stays {
            Some(why) => write!(f, " and stays: {why}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { left } if left.is_empty() => writeln!(f, "every node runs what new nodes get"),
            Self::Done { left } => left.iter().try_for_each(|outdated| writeln!(f, "{outdated}")),
            Self::Wait { why } => writeln!(f, "waiting for {why}"),
            Self::Batch(batch) => {
                if batch.add > 0 {
                    writeln!(f, "add {} instances", batch.add)?;
                }
                let verb = if batch.drain { "drain and remove" } else { "remove" };
                batch.remove.iter().try_for_each(|outdated| writeln!(f, "{verb} {} ({})", outdated.node, outdated.runs))
            }
        }
    }
}

#[cfg(test)]
#[path = "refresh_tests.rs"]
mod tests;
