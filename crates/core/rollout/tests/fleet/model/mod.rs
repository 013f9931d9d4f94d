//! A simulated fleet and the operator of one rollout.

mod node;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{RolloutPolicySpec, RolloutSpec, RolloutStatus, Target};
use kiln_rollout::{
    Act, Decision, DrainState, FreezeObserved, NodeObserved, Observed, PastTurn, Policy, PoolObserved, Problem,
    Reading, ResolvedTarget, Rollout, next,
};

pub(crate) use node::Node;

/// Name of the rollout.
pub(crate) const ROLLOUT: &str = "spring";
/// Digest of the previous document.
pub(crate) const OLD: &str = "old";
/// Digest of the target.
pub(crate) const NEW: &str = "new";

/// Everything that exists.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) now: Timestamp,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) pools: Vec<PoolObserved>,
    pub(crate) freezes: Vec<FreezeObserved>,
    pub(crate) older: Vec<String>,
    pub(crate) readings: Vec<Reading>,
    pub(crate) past: Vec<PastTurn>,
    pub(crate) target: Result<ResolvedTarget, Problem>,
    pub(crate) spec: RolloutSpec,
    pub(crate) status: RolloutStatus,
    pub(crate) policy: Policy,
}

/// Parses a time.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Parses a policy from JSON.
pub(crate) fn policy(value: serde_json::Value) -> Policy {
    let spec: RolloutPolicySpec = serde_json::from_value(value).expect("a policy");
    Policy::parse(&spec).expect("a valid policy")
}

impl Fleet {
    /// Nodes `web-01`, `web-02` and so on, in zones `a` and `b` by turns, with the previous document.
    pub(crate) fn new(size: usize, policy: Policy) -> Self {
        let mut fleet = Self {
            now: at("2026-03-02T12:00:00Z"),
            nodes: BTreeMap::new(),
            pools: vec![PoolObserved {
                name: "web".to_owned(),
                previous: Some(ResolvedTarget { node_config: format!("config-{OLD}"), digest: OLD.to_owned() }),
                ..PoolObserved::default()
            }],
            freezes: Vec::new(),
            older: Vec::new(),
            readings: Vec::new(),
            past: Vec::new(),
            target: Ok(ResolvedTarget { node_config: format!("config-{NEW}"), digest: NEW.to_owned() }),
            spec: RolloutSpec {
                pools: vec!["web".to_owned()],
                target: Target::document(format!("config-{NEW}"), None),
                ..RolloutSpec::default()
            },
            status: RolloutStatus::default(),
            policy,
        };
        (1..=size).for_each(|number| fleet.add(number));
        fleet
    }

    pub(crate) fn add(&mut self, number: usize) {
        let mut node = Node::new(&format!("web-{number:02}"), "web", Some(OLD));
        let zone = if number % 2 == 1 { "a" } else { "b" };
        node.shown.labels.insert("zone".to_owned(), zone.to_owned());
        node.shown.expected_effect = Some(node.effect);
        self.nodes.insert(node.shown.name.clone(), node);
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).unwrap_or_else(|| panic!("no node {name}"))
    }

    /// Gives all nodes an effect, known beforehand or not.
    pub(crate) fn effect(mut self, effect: kiln_fleet_api::Effect, is_known: bool) -> Self {
        for node in self.nodes.values_mut() {
            node.effect = effect;
            node.shown.expected_effect = is_known.then_some(effect);
        }
        self
    }

    pub(crate) fn observe(&self) -> Observed {
        self.observe_nodes(self.nodes.values().map(|node| node.shown.clone()).collect())
    }

    pub(crate) fn observe_nodes(&self, nodes: Vec<NodeObserved>) -> Observed {
        Observed {
            target: self.target.clone(),
            pools: self.pools.clone(),
            nodes,
            freezes: self.freezes.clone(),
            older_rollouts: self.older.clone(),
            prometheus: self.readings.clone(),
            past: self.past.clone(),
        }
    }

    pub(crate) fn decide(&self, observed: &Observed) -> Decision {
        let rollout = Rollout {
            name: ROLLOUT,
            generation: Some(1),
            spec: &self.spec,
            status: &self.status,
            policy: &self.policy,
        };
        next(&rollout, observed, self.now)
    }

    /// Decides on the present state and carries the decision out. Returns the acts as text.
    pub(crate) fn turn(&mut self) -> Vec<String> {
        let decision = self.decide(&self.observe());
        self.status = decision.status;
        decision.acts.iter().for_each(|act| self.perform(act));
        decision.acts.iter().map(text).collect()
    }

    pub(crate) fn perform(&mut self, act: &Act) {
        let now = self.now;
        match act {
            Act::CompletePool { pool, target } => self.pool(pool).previous = Some(target.clone()),
            Act::RejectDigest { pool, digest } => self.pool(pool).rejected.push(digest.clone()),
            _ => {}
        }
        let Some(node) = act.node().and_then(|name| self.nodes.get_mut(name)) else { return };
        match act {
            Act::Assign { desired, .. } => node.write(now, |shown| {
                shown.desired = Some(desired.clone());
                (shown.allow, shown.reboot) = (None, None);
            }),
            Act::Unassign { .. } => node.write(now, |shown| {
                (shown.desired, shown.allow, shown.reboot) = (None, None, None);
            }),
            Act::Allow { digest, .. } => node.write(now, |shown| shown.allow = Some(digest.clone())),
            Act::Reboot { boot_id, .. } => node.write(now, |shown| shown.reboot = Some(boot_id.clone())),
            Act::Drain { .. } => {
                node.is_cordoned_by_kiln |= !node.shown.cordoned;
                (node.shown.held, node.shown.cordoned) = (true, true);
                if node.shown.drain == DrainState::None {
                    node.shown.drain = DrainState::Running { since: now };
                }
                node.version += 1;
            }
            Act::Release { .. } => {
                if std::mem::take(&mut node.is_cordoned_by_kiln) {
                    node.shown.cordoned = false;
                }
                (node.shown.held, node.shown.drain) = (false, DrainState::None);
                if node.shown.allow.is_some() || node.shown.reboot.is_some() {
                    node.write(now, |shown| (shown.allow, shown.reboot) = (None, None));
                }
                node.version += 1;
            }
            Act::CompletePool { .. }
            | Act::RejectDigest { .. }
            | Act::Grow { .. }
            | Act::Remove { .. }
            | Act::RemoveUnjoined { .. }
            | Act::RejectVersion { .. } => {}
        }
    }

    fn pool(&mut self, name: &str) -> &mut PoolObserved {
        self.pools.iter_mut().find(|pool| pool.name == name).expect("a pool")
    }

    /// Lets all nodes take a step.
    pub(crate) fn react(&mut self) {
        let now = self.now;
        self.nodes.values_mut().for_each(|node| node.react(now));
    }

    pub(crate) fn pass(&mut self, minutes: i64) {
        self.now += SignedDuration::from_mins(minutes);
    }

    /// Decides and reacts, one minute each, until nothing starts for ten minutes or the rollout ends.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        let (mut acts, mut quiet) = (Vec::new(), 0);
        while quiet < 10 && !self.status.phase.is_final() {
            let new = self.turn();
            quiet = if new.is_empty() { quiet + 1 } else { 0 };
            acts.extend(new);
            self.react();
            self.pass(1);
        }
        acts.extend(self.turn());
        acts
    }

    /// The reason for which the rollout waits, and its sentence.
    pub(crate) fn waits(&self) -> (String, String) {
        let waiting = self.status.waiting_for.as_ref();
        waiting.map(|waiting| (format!("{:?}", waiting.reason), waiting.message.clone())).unwrap_or_default()
    }

    /// Names of the nodes with a document in force.
    pub(crate) fn having(&self, digest: &str) -> Vec<&str> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.document() == digest);
        nodes.map(|(name, _)| name.as_str()).collect()
    }
}

/// An act as text.
pub(crate) fn text(act: &Act) -> String {
    match act {
        Act::Assign { node, desired } => format!("assign {} to {node} in wave {}", desired.digest, desired.wave),
        Act::Unassign { node } => format!("unassign {node}"),
        Act::Drain { node } => format!("drain {node}"),
        Act::Allow { node, digest } => format!("allow {digest} on {node}"),
        Act::Reboot { node, .. } => format!("reboot {node}"),
        Act::Release { node } => format!("release {node}"),
        Act::CompletePool { pool, target } => format!("complete pool {pool} with {}", target.digest),
        Act::RejectDigest { pool, digest } => format!("reject {digest} on pool {pool}"),
        Act::Grow { pool, to } => format!("grow {pool} to {to}"),
        Act::Remove { node } => format!("remove {node}"),
        Act::RemoveUnjoined { pool, version } => format!("remove machines of {version} in {pool} that have not joined"),
        Act::RejectVersion { pool, version, .. } => format!("reject version {version} on pool {pool}"),
    }
}
