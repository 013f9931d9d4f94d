//! Refresh: which nodes to replace, in what order and how many at a time.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use kiln_types::{
    DefinitionName, ImageSource, Instance, InstanceId, Node, PoolName, PowerState, ProviderId, Provisioning,
    VersionNumber,
};
use serde::Serialize;

use crate::Error;
use crate::latest::{describe_image, same_definition, version_of};

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
    pub pool: &'a PoolName,
    /// The number of nodes at the end, see [`follow_capacity`].
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
    /// The owner of the refresh's holds.
    pub owner: &'a str,
    pub budget: Budget,
}

/// What the cluster knows of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It may run, and no Node has its provider ID. It cannot be drained.
    Missing,
    /// It does not run and has no Node, so there is nothing to drain.
    Off,
    NotReady,
    /// Ready, and no new pods are scheduled onto it.
    Cordoned,
    Available,
}

/// An instance that does not run the version that new nodes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutdatedNode {
    pub instance: InstanceId,
    /// The name of its Node, or its host name if it has none.
    pub node: String,
    /// The image that it runs.
    pub runs: String,
    /// Whether that version was rejected.
    pub rejected: bool,
    pub state: NodeState,
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
    /// Change nothing: these instances may run pods, and no Node shows which.
    Refuse { missing: Vec<OutdatedNode> },
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

/// What a refresh writes to [`REFRESH_TAG`](kiln_types::tags::REFRESH_TAG) of its pool, for a process that continues it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// The number of nodes at the end.
    pub wanted: u32,
    above: u32,
    below: u32,
}

impl Goal {
    /// A refresh of a pool of this size.
    pub fn new(wanted: u32, budget: Budget) -> Self {
        Self { wanted, above: budget.surge, below: if budget.all_at_once { wanted } else { budget.max_unavailable } }
    }

    /// The number of nodes at the end of a refresh that is continued at this capacity. If the interrupted process cannot have caused the
    /// capacity, others have changed it since, and it is kept.
    pub fn continued_at(self, capacity: u32) -> u32 {
        let own = self.wanted.saturating_sub(self.below)..=self.wanted.saturating_add(self.above);
        if own.contains(&capacity) { self.wanted } else { capacity }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}-{}", self.wanted, self.above, self.below)
    }
}

impl FromStr for Goal {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        // Older versions wrote the number of nodes only, for any budget.
        let Some((wanted, rest)) = text.split_once('+') else {
            let wanted = text.parse()?;
            return Ok(Self { wanted, above: u32::MAX, below: wanted });
        };
        let (above, below) = rest.split_once('-').unwrap_or((rest, "0"));
        Ok(Self { wanted: wanted.parse()?, above: above.parse()?, below: below.parse()? })
    }
}

/// The number of nodes at the end, after others (the autoscaler, a person) changed the capacity: their change is kept.
pub fn follow_capacity(wanted: u32, expected: u32, observed: u32) -> u32 {
    if observed >= expected {
        wanted.saturating_add(observed - expected)
    } else {
        wanted.saturating_sub(expected - observed)
    }
}

/// The outdated instances in the order of their replacement: rejected versions, then unavailable nodes, then the oldest versions.
pub fn outdated(state: RefreshState<'_>) -> Vec<OutdatedNode> {
    outdated_of(state, &state.members())
}

fn outdated_of(state: RefreshState<'_>, members: &[Member<'_>]) -> Vec<OutdatedNode> {
    let mut all: Vec<(Option<&VersionNumber>, u64, OutdatedNode)> = members
        .iter()
        .filter_map(|member| {
            let Member { instance, node, state: node_state } = *member;
            let version = version_of(&instance.runs, state.definition);
            if version == Some(state.target) {
                return None;
            }
            let name = member.name();
            let holder = node.and_then(|node| node.held_by.as_deref());
            let stays = if state.own_node == Some(name) {
                Some("kiln runs on it")
            } else if holder.is_some_and(|holder| holder != state.owner) {
                Some("a run holds it")
            } else if instance.protection.from_scale_in || instance.protection.from_pool_actions {
                Some("it is protected")
            } else if matches!(&instance.runs, ImageSource::Definition(named) if same_definition(named, state.definition)) {
                // Its replacement would look the same, so the refresh would replace nodes for ever.
                Some("Azure does not report its version")
            } else {
                None
            };
            let outdated = OutdatedNode {
                instance: instance.id.clone(),
                node: name.to_owned(),
                runs: version.map_or_else(|| describe_image(&instance.runs), ToString::to_string),
                rejected: version.is_some_and(|version| state.rejected.contains(version)),
                state: node_state,
                stays,
            };
            Some((version, instance.id.as_str().parse().unwrap_or(u64::MAX), outdated))
        })
        .collect();
    all.sort_by(|(a_version, a_number, a), (b_version, b_number, b)| {
        let first = |outdated: &OutdatedNode| (!outdated.rejected, outdated.state == NodeState::Available);
        // An image that is not a version counts as older than all versions.
        (first(a), a_version, a_number, &a.instance).cmp(&(first(b), b_version, b_number, &b.instance))
    });
    all.into_iter().map(|(_, _, outdated)| outdated).collect()
}

/// Decides the next change from the current state of the pool alone.
///
/// No batch leaves fewer than `wanted - max_unavailable` nodes: removing an available node leaves that many available ones, and removing
/// any node leaves that many Ready ones. Nodes that are not Ready or cordoned, for whatever reason, use the budget up like those that the
/// refresh itself drains, and are replaced within it. A zone whose nodes are all NotReady for a minute is therefore not deleted.
pub fn next_batch(state: RefreshState<'_>) -> RefreshDecision {
    let members = state.members();
    let (left, mut old): (Vec<OutdatedNode>, Vec<OutdatedNode>) =
        outdated_of(state, &members).into_iter().partition(|outdated| outdated.stays.is_some());
    if state.budget.all_at_once && !old.is_empty() {
        return RefreshDecision::Batch(Batch { add: 0, remove: old, drain: false });
    }
    let missing: Vec<OutdatedNode> = old.iter().filter(|one| one.state == NodeState::Missing).cloned().collect();
    if !missing.is_empty() {
        return RefreshDecision::Refuse { missing };
    }
    // Requested instances that are not listed yet will run the target, too.
    let total = state.capacity.max(count(members.len()));
    let new = total - count(old.len()) - count(left.len());
    let needed = state.wanted.saturating_sub(new + count(left.len()));
    let add = needed.min((state.wanted.saturating_add(state.budget.surge)).saturating_sub(total));

    let in_state = |least: NodeState| count(members.iter().filter(|member| member.state >= least).count());
    let (available, ready) = (in_state(NodeState::Available), in_state(NodeState::Cordoned));
    let least = state.wanted.saturating_sub(state.budget.max_unavailable);
    let outstanding = old.len();
    let (mut available_spare, mut ready_spare) = (available.saturating_sub(least), ready.saturating_sub(least));
    old.retain(|outdated| match outdated.state {
        NodeState::Available if available_spare > 0 && ready_spare > 0 => {
            available_spare -= 1;
            ready_spare -= 1;
            true
        }
        NodeState::Cordoned if ready_spare > 0 => {
            ready_spare -= 1;
            true
        }
        NodeState::Available | NodeState::Cordoned | NodeState::Missing => false,
        NodeState::NotReady | NodeState::Off => ready >= least,
    });
    if add > 0 || !old.is_empty() {
        return RefreshDecision::Batch(Batch { add, remove: old, drain: true });
    }
    let leaving = state.instances.len() - members.len();
    // Nodes that are not replaced may stay unavailable.
    let kept_unavailable = count(left.iter().filter(|one| one.state != NodeState::Available).count());
    let unavailable = total.saturating_sub(available + kept_unavailable);
    match (outstanding, leaving) {
        (0, 0) if unavailable == 0 => RefreshDecision::Done { left },
        (0, leaving) if leaving > 0 && unavailable == 0 => {
            RefreshDecision::Wait { reason: format!("{leaving} instances to be deleted") }
        }
        _ => RefreshDecision::Wait { reason: awaited(&members, total) },
    }
}

/// An instance that is not being deleted, with its Node.
#[derive(Debug, Clone, Copy)]
struct Member<'a> {
    instance: &'a Instance,
    node: Option<&'a Node>,
    state: NodeState,
}

impl<'a> Member<'a> {
    fn new(instance: &'a Instance, node: Option<&'a Node>) -> Self {
        let state = match (node, instance.power) {
            (Some(node), _) if !node.is_ready() => NodeState::NotReady,
            (Some(node), _) if node.cordoned => NodeState::Cordoned,
            (Some(_), _) => NodeState::Available,
            (None, PowerState::Stopped | PowerState::Deallocated) => NodeState::Off,
            (None, _) => NodeState::Missing,
        };
        Self { instance, node, state }
    }

    fn name(&self) -> &'a str {
        self.node.map_or(self.instance.node_name.as_str(), |node| node.name.as_str())
    }
}

impl<'a> RefreshState<'a> {
    fn members(&self) -> Vec<Member<'a>> {
        let mut nodes: HashMap<String, &'a Node> = HashMap::new();
        for node in self.nodes {
            let Some(id) = ProviderId::from_node(node).filter(|id| id.is_of(self.pool)) else { continue };
            let known = nodes.entry(id.instance.as_str().to_ascii_lowercase()).or_insert(node);
            // After a host was renamed there can be two Nodes, of which only one is Ready.
            if !known.is_ready() {
                *known = node;
            }
        }
        let node_of = |instance: &Instance| nodes.get(&instance.id.as_str().to_ascii_lowercase()).copied();
        let staying = self.instances.iter().filter(|instance| !is_deleting(instance));
        staying.map(|instance| Member::new(instance, node_of(instance))).collect()
    }
}

/// What a refresh that can do nothing waits for.
fn awaited(members: &[Member<'_>], total: u32) -> String {
    let unavailable = members.iter().filter(|member| member.state != NodeState::Available);
    let names: Vec<String> = unavailable
        .map(|member| {
            let cordoned = if member.state == NodeState::Cordoned { " (cordoned)" } else { "" };
            format!("`{}`{cordoned}", member.name())
        })
        .collect();
    // Instances that are not listed yet have no names.
    match (names.len(), total.saturating_sub(count(members.len()))) {
        (0, unlisted) => format!("{unlisted} new instances"),
        (_, 0) => format!("{} to be available", names.join(", ")),
        (_, unlisted) => format!("{} and {unlisted} new instances to be available", names.join(", ")),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn is_deleting(instance: &Instance) -> bool {
    matches!(&instance.provisioning, Provisioning::InProgress(state) if state.eq_ignore_ascii_case("deleting"))
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
            Self::Refuse { missing } => missing.iter().try_for_each(|one| {
                writeln!(f, "instance {} ({}) has no Node with its provider ID", one.instance, one.node)
            }),
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
