//! A simulated pool of machines, and the operator of a rollout with an image version.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{RolloutSpec, RolloutStatus, Target};
use kiln_rollout::{
    Act, Decision, DrainState, FreezeObserved, NodeObserved, Observed, Policy, PoolObserved, Problem, ResolvedTarget,
    Rollout, next,
};

use crate::model::{NEW, OLD, at, text};

/// A machine. It has a node once it has booted.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a machine")]
pub(crate) struct Machine {
    pub(crate) shown: NodeObserved,
    pub(crate) version: String,
    /// Reactions until its node is Ready.
    pub(crate) boots: u32,
    /// It has no node yet.
    pub(crate) is_new: bool,
    pub(crate) is_deleting: bool,
    pub(crate) is_blocked: bool,
    pub(crate) is_cordoned_by_kiln: bool,
}

/// Everything that exists.
#[derive(Clone)]
pub(crate) struct Machines {
    pub(crate) now: Timestamp,
    pub(crate) all: BTreeMap<String, Machine>,
    pub(crate) capacity: i64,
    /// The version that new machines get.
    pub(crate) current: String,
    pub(crate) rejected: Vec<String>,
    /// Machines of the new version never become Ready.
    pub(crate) is_bad: bool,
    pub(crate) freezes: Vec<FreezeObserved>,
    pub(crate) target: Result<ResolvedTarget, Problem>,
    pub(crate) spec: RolloutSpec,
    pub(crate) status: RolloutStatus,
    pub(crate) policy: Policy,
    pub(crate) number: usize,
}

impl Machines {
    /// Nodes `web-01`, `web-02` and so on, in zones `a` and `b` by turns, of the old version.
    pub(crate) fn new(size: usize, policy: Policy) -> Self {
        let mut pool = Self {
            now: at("2026-03-02T12:00:00Z"),
            all: BTreeMap::new(),
            capacity: 0,
            current: OLD.to_owned(),
            rejected: Vec::new(),
            is_bad: false,
            freezes: Vec::new(),
            target: Ok(ResolvedTarget { node_config: format!("web-{NEW}"), digest: NEW.to_owned() }),
            spec: RolloutSpec {
                pools: vec!["web".to_owned()],
                target: Target::image(format!("web-{NEW}")),
                ..RolloutSpec::default()
            },
            status: RolloutStatus::default(),
            policy,
            number: 0,
        };
        pool.grow(size);
        for machine in pool.all.values_mut() {
            (machine.is_new, machine.boots, machine.shown.ready) = (false, 0, true);
        }
        NEW.clone_into(&mut pool.current);
        pool
    }

    fn grow(&mut self, count: usize) {
        for _ in 0..count {
            self.number += 1;
            self.capacity += 1;
            let (name, zone) = (format!("web-{:02}", self.number), if self.number % 2 == 1 { "a" } else { "b" });
            let shown = NodeObserved {
                name: name.clone(),
                pool: "web".to_owned(),
                labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
                ready_since: Some(self.now),
                daemon_sets_ready: true,
                image: Some(self.current.clone()),
                ..NodeObserved::default()
            };
            self.all.insert(
                name,
                Machine {
                    shown,
                    version: self.current.clone(),
                    boots: 3,
                    is_new: true,
                    is_deleting: false,
                    is_blocked: false,
                    is_cordoned_by_kiln: false,
                },
            );
        }
    }

    pub(crate) fn machine(&mut self, name: &str) -> &mut Machine {
        self.all.get_mut(name).unwrap_or_else(|| panic!("no machine {name}"))
    }

    /// What the operator sees; without the capacity if it waits for an operation of the cloud.
    pub(crate) fn observe(&self, is_current: bool) -> Observed {
        let capacity = is_current.then_some(self.capacity);
        let previous = ResolvedTarget { node_config: format!("web-{OLD}"), digest: OLD.to_owned() };
        Observed {
            target: self.target.clone(),
            pools: vec![PoolObserved {
                name: "web".to_owned(),
                previous: Some(previous),
                rejected: self.rejected.clone(),
                capacity,
                unjoined: self.unjoined(),
                ..PoolObserved::default()
            }],
            nodes: self.nodes().map(|machine| machine.shown.clone()).collect(),
            freezes: self.freezes.clone(),
            older_rollouts: Vec::new(),
            prometheus: Vec::new(),
            past: Vec::new(),
        }
    }

    /// Machines of the new version that have no node.
    fn unjoined(&self) -> Vec<String> {
        let unjoined = self.all.iter().filter(|(_, machine)| machine.is_new && machine.version == NEW);
        unjoined.map(|(name, _)| name.clone()).collect()
    }

    /// The machines that have nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Machine> {
        self.all.values().filter(|machine| !machine.is_new)
    }

    pub(crate) fn decide(&self, observed: &Observed) -> Decision {
        let rollout = Rollout {
            name: "spring",
            generation: Some(1),
            spec: &self.spec,
            status: &self.status,
            policy: &self.policy,
        };
        next(&rollout, observed, self.now)
    }

    /// Decides on the present state and carries the decision out. Returns the acts as text.
    pub(crate) fn turn(&mut self) -> Vec<String> {
        let decision = self.decide(&self.observe(true));
        self.status = decision.status;
        decision.acts.iter().for_each(|act| self.perform(act));
        decision.acts.iter().map(text).collect()
    }

    pub(crate) fn perform(&mut self, act: &Act) {
        match act {
            Act::Grow { to, .. } => {
                let missing = usize::try_from(to - self.capacity).unwrap_or_default();
                self.grow(missing);
            }
            Act::RemoveUnjoined { .. } => {
                for name in self.unjoined() {
                    self.all.remove(&name);
                    self.capacity -= 1;
                }
            }
            Act::RejectVersion { version, .. } => {
                self.rejected.push(version.clone());
                OLD.clone_into(&mut self.current);
            }
            _ => {}
        }
        let now = self.now;
        let Some(machine) = act.node().and_then(|name| self.all.get_mut(name)) else { return };
        match act {
            Act::Drain { .. } => {
                machine.is_cordoned_by_kiln |= !machine.shown.cordoned;
                (machine.shown.held, machine.shown.cordoned) = (true, true);
                if machine.shown.drain == DrainState::None {
                    machine.shown.drain = DrainState::Running { since: now };
                }
            }
            Act::Release { .. } => {
                if std::mem::take(&mut machine.is_cordoned_by_kiln) {
                    machine.shown.cordoned = false;
                }
                (machine.shown.held, machine.shown.drain) = (false, DrainState::None);
            }
            Act::Remove { .. } => {
                self.capacity -= i64::from(!machine.is_deleting);
                machine.is_deleting = true;
            }
            _ => {}
        }
    }

    pub(crate) fn set_ready(&mut self, name: &str, ready: bool) {
        let now = self.now;
        let shown = &mut self.machine(name).shown;
        if shown.ready != ready {
            (shown.ready, shown.ready_since) = (ready, Some(now));
        }
    }

    /// Lets one machine take a step.
    pub(crate) fn react_one(&mut self, name: &str) {
        let (now, is_bad) = (self.now, self.is_bad);
        let machine = self.machine(name);
        if machine.is_deleting {
            self.all.remove(name);
            return;
        }
        if matches!(machine.shown.drain, DrainState::Running { .. }) && !machine.is_blocked {
            machine.shown.drain = DrainState::Done;
        }
        if machine.boots > 0 && !(machine.boots == 1 && is_bad && machine.version == NEW) {
            machine.boots -= 1;
            if machine.boots == 1 {
                (machine.is_new, machine.shown.ready_since) = (false, Some(now));
            }
            if machine.boots == 0 {
                (machine.shown.ready, machine.shown.ready_since) = (true, Some(now));
            }
        }
    }

    pub(crate) fn react(&mut self) {
        let names: Vec<String> = self.all.keys().cloned().collect();
        for name in &names {
            self.react_one(name);
        }
    }

    pub(crate) fn pass(&mut self, minutes: i64) {
        self.now += SignedDuration::from_mins(minutes);
    }

    /// Decides and reacts, one minute each, until the rollout ends or nothing happens for an hour. Returns the acts without repetitions.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        let (mut acts, mut quiet): (Vec<String>, u32) = (Vec::new(), 0);
        while quiet < 60 && !self.status.phase.is_final() {
            let mut new = self.turn();
            new.retain(|act| !acts.contains(act));
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

    /// Number of nodes of a version.
    pub(crate) fn count(&self, version: &str) -> usize {
        self.nodes().filter(|machine| machine.version == version).count()
    }

    /// Names of nodes that kiln cordoned or holds.
    pub(crate) fn held(&self) -> Vec<&str> {
        let held = self.nodes().filter(|machine| machine.shown.held || machine.is_cordoned_by_kiln);
        held.map(|machine| machine.shown.name.as_str()).collect()
    }
}
