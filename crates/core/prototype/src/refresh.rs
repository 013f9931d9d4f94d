//! Replacing nodes that run another version than new nodes get: which, in what order, how many at a time.

use std::collections::BTreeSet;
use std::fmt;

use kiln_types::{DefinitionName, Instance, InstanceId, Node, Provisioning, VersionNumber};
use serde::Serialize;

use crate::Error;
use crate::latest::{describe_image, version_of};

/// How many at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// How many nodes the pool may have beyond what it should.
    pub surge: u32,
    /// How many of the nodes that it should have may be missing.
    pub max_unavailable: u32,
    /// All old nodes go at once and without a drain, for when every one of them is harmful.
    pub all_at_once: bool,
}

/// One more and none missing: the slowest budget, which no workload notices.
impl Default for Budget {
    fn default() -> Self {
        Self { surge: 1, max_unavailable: 0, all_at_once: false }
    }
}

impl Budget {
    /// Checks that something can move.
    pub fn check(self) -> Result<Self, Error> {
        if self.surge > 0 || self.max_unavailable > 0 || self.all_at_once { Ok(self) } else { Err(Error::EmptyBudget) }
    }
}

/// A refresh as it stands.
#[derive(Debug, Clone, Copy)]
pub struct RefreshState<'a> {
    /// How many nodes the pool should have when it is over: what it had when it began.
    pub wanted: u32,
    /// How many it is told to have now.
    pub capacity: u32,
    /// What new nodes get.
    pub target: &'a VersionNumber,
    pub definition: &'a DefinitionName,
    /// Versions that were taken back: their nodes go first.
    pub rejected: &'a BTreeSet<VersionNumber>,
    pub instances: &'a [Instance],
    pub nodes: &'a [Node],
    /// The node that this program runs on.
    pub own_node: Option<&'a str>,
    /// How many at a time.
    pub budget: Budget,
}

/// An instance that runs something else than new nodes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutdatedNode {
    pub instance: InstanceId,
    pub node: String,
    /// What it runs.
    pub runs: String,
    /// Whether that was taken back.
    pub rejected: bool,
    /// Whether pods can run there.
    pub available: bool,
    /// Why it stays all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<&'static str>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RefreshDecision {
    /// Every node that can be replaced is.
    Done {
        /// Those that cannot.
        left: Vec<OutdatedNode>,
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
    pub remove: Vec<OutdatedNode>,
    /// Whether they are drained before.
    pub drain: bool,
}

/// The instances that run something else, in the order in which they go: what was taken back, then where no pod can run, then the oldest.
pub fn outdated(state: RefreshState<'_>) -> Vec<OutdatedNode> {
    let staying = state.instances.iter().filter(|instance| !is_leaving(instance));
    let mut all: Vec<(Option<&VersionNumber>, u64, OutdatedNode)> = staying
        .filter_map(|instance| {
            let version = version_of(&instance.runs, state.definition);
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
            let outdated = OutdatedNode {
                instance: instance.id.clone(),
                node: instance.node_name.clone(),
                runs: version.map_or_else(|| describe_image(&instance.runs), ToString::to_string),
                rejected: version.is_some_and(|version| state.rejected.contains(version)),
                available: is_available(instance, state.nodes),
                stays,
            };
            Some((version, instance.id.as_str().parse().unwrap_or(u64::MAX), outdated))
        })
        .collect();
    all.sort_by(|(a_version, a_number, a), (b_version, b_number, b)| {
        let first = |outdated: &OutdatedNode| (!outdated.rejected, outdated.available);
        // What is of no version is older than the first version.
        (first(a), a_version, a_number, &a.instance).cmp(&(first(b), b_version, b_number, &b.instance))
    });
    all.into_iter().map(|(_, _, outdated)| outdated).collect()
}

/// The next change of a refresh, from how the pool is now. Nothing is remembered between two calls.
pub fn next_batch(state: RefreshState<'_>) -> RefreshDecision {
    let (left, mut old): (Vec<OutdatedNode>, Vec<OutdatedNode>) =
        outdated(state).into_iter().partition(|outdated| outdated.stays.is_some());
    let staying: Vec<&Instance> = state.instances.iter().filter(|instance| !is_leaving(instance)).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // Instances that were asked for and do not show yet come from the target too.
    let total = state.capacity.max(count(staying.len()));
    let new = total - count(old.len()) - count(left.len());
    let missing = state.wanted.saturating_sub(new + count(left.len()));

    if state.budget.all_at_once && !old.is_empty() {
        return RefreshDecision::Batch(Batch { add: 0, remove: old, drain: false });
    }
    let add = missing.min((state.wanted + state.budget.surge).saturating_sub(total));
    let available = count(staying.iter().filter(|instance| is_available(instance, state.nodes)).count());
    let least = state.wanted.saturating_sub(state.budget.max_unavailable);
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
        return RefreshDecision::Batch(Batch { add, remove: old, drain: true });
    }
    let leaving = state.instances.len() - staying.len();
    // What stays as it is may stay unwell.
    let unwell = count(left.iter().filter(|outdated| !outdated.available).count());
    let unready = total.saturating_sub(available + unwell);
    match (outstanding, leaving) {
        (0, 0) if unready == 0 => RefreshDecision::Done { left },
        (0, leaving) if leaving > 0 && unready == 0 => {
            RefreshDecision::Wait { why: format!("{leaving} instances to be gone") }
        }
        _ => RefreshDecision::Wait { why: format!("{unready} nodes to be Ready") },
    }
}

fn is_leaving(instance: &Instance) -> bool {
    matches!(&instance.provisioning, Provisioning::InProgress(word) if word.eq_ignore_ascii_case("deleting"))
}

fn is_available(instance: &Instance, nodes: &[Node]) -> bool {
    nodes.iter().any(|node| node.name.as_str() == instance.node_name && node.is_ready() && !node.cordoned)
}

impl fmt::Display for OutdatedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs {}", self.node, self.runs)?;
        if self.rejected {
            f.write_str(", which was taken back")?;
        }
        match self.stays {
            Some(why) => write!(f, " and stays: {why}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RefreshDecision {
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
