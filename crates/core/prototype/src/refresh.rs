//! Refresh: which nodes to replace, in what order and how many at a time.

use std::collections::BTreeSet;
use std::fmt;

use kiln_types::{DefinitionName, Instance, InstanceId, Node, Provisioning, VersionNumber};
use serde::Serialize;

use crate::Error;
use crate::latest::{describe_image, version_of};

/// How many nodes may be replaced at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Nodes above the pool's size.
    pub surge: u32,
    /// Nodes that may be missing below the pool's size.
    pub max_unavailable: u32,
    /// Delete all old nodes at once and without a drain, for outages.
    pub all_at_once: bool,
}

/// One additional node and none missing: the slowest budget, which workloads do not notice.
impl Default for Budget {
    fn default() -> Self {
        Self { surge: 1, max_unavailable: 0, all_at_once: false }
    }
}

impl Budget {
    /// Checks that the budget allows any replacement.
    pub fn check(self) -> Result<Self, Error> {
        if self.surge > 0 || self.max_unavailable > 0 || self.all_at_once { Ok(self) } else { Err(Error::EmptyBudget) }
    }
}

/// The state of the pool during a refresh.
#[derive(Debug, Clone, Copy)]
pub struct RefreshState<'a> {
    /// The number of nodes at the end: the number at the beginning.
    pub wanted: u32,
    /// The pool's current capacity.
    pub capacity: u32,
    /// The version that new nodes get.
    pub target: &'a VersionNumber,
    pub definition: &'a DefinitionName,
    /// Nodes of these versions are replaced first.
    pub rejected: &'a BTreeSet<VersionNumber>,
    pub instances: &'a [Instance],
    pub nodes: &'a [Node],
    /// The node that kiln runs on.
    pub own_node: Option<&'a str>,
    pub budget: Budget,
}

/// An instance that does not run the version that new nodes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutdatedNode {
    pub instance: InstanceId,
    pub node: String,
    /// The image that it runs.
    pub runs: String,
    /// Whether that version was rejected.
    pub rejected: bool,
    /// Whether its node is Ready and not cordoned.
    pub available: bool,
    /// Why it is not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<&'static str>,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RefreshDecision {
    /// All nodes are replaced, except those in `left`.
    Done { left: Vec<OutdatedNode> },
    /// Wait, then decide again.
    Wait { reason: String },
    /// Change the pool, then decide again.
    Batch(Batch),
}

/// A change of the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Instances to add first.
    pub add: u32,
    pub remove: Vec<OutdatedNode>,
    /// Whether to drain them before.
    pub drain: bool,
}

/// The outdated instances in the order of their replacement: rejected versions, then unavailable nodes, then the oldest versions.
pub fn outdated(state: RefreshState<'_>) -> Vec<OutdatedNode> {
    let staying = state.instances.iter().filter(|instance| !is_deleting(instance));
    let mut all: Vec<(Option<&VersionNumber>, u64, OutdatedNode)> = staying
        .filter_map(|instance| {
            let version = version_of(&instance.runs, state.definition);
            if version == Some(state.target) {
                return None;
            }
            let stays = if state.own_node == Some(instance.node_name.as_str()) {
                Some("kiln runs on it")
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
        // An image that is not a version counts as older than all versions.
        (first(a), a_version, a_number, &a.instance).cmp(&(first(b), b_version, b_number, &b.instance))
    });
    all.into_iter().map(|(_, _, outdated)| outdated).collect()
}

/// Decides the next change from the current state of the pool alone.
pub fn next_batch(state: RefreshState<'_>) -> RefreshDecision {
    let (left, mut old): (Vec<OutdatedNode>, Vec<OutdatedNode>) =
        outdated(state).into_iter().partition(|outdated| outdated.stays.is_some());
    let staying: Vec<&Instance> = state.instances.iter().filter(|instance| !is_deleting(instance)).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // Requested instances that are not listed yet will run the target, too.
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
    // Nodes that are not replaced may stay unavailable.
    let unavailable = count(left.iter().filter(|outdated| !outdated.available).count());
    let unready = total.saturating_sub(available + unavailable);
    match (outstanding, leaving) {
        (0, 0) if unready == 0 => RefreshDecision::Done { left },
        (0, leaving) if leaving > 0 && unready == 0 => {
            RefreshDecision::Wait { reason: format!("{leaving} instances to be deleted") }
        }
        _ => RefreshDecision::Wait { reason: format!("{unready} nodes to become Ready") },
    }
}

fn is_deleting(instance: &Instance) -> bool {
    matches!(&instance.provisioning, Provisioning::InProgress(state) if state.eq_ignore_ascii_case("deleting"))
}

fn is_available(instance: &Instance, nodes: &[Node]) -> bool {
    nodes.iter().any(|node| node.name.as_str() == instance.node_name && node.is_ready() && !node.cordoned)
}

impl fmt::Display for OutdatedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs {}", self.node, self.runs)?;
        if self.rejected {
            f.write_str(", which was rejected")?;
        }
        match self.stays {
            Some(reason) => write!(f, " and is not replaced: {reason}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RefreshDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done { left } if left.is_empty() => writeln!(f, "every node runs the version that new nodes get"),
            Self::Done { left } => left.iter().try_for_each(|outdated| writeln!(f, "{outdated}")),
            Self::Wait { reason } => writeln!(f, "waiting for {reason}"),
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
