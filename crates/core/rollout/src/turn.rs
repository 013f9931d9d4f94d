//! Turns: where each node is in this rollout. Derived from the node's objects; the status adds what they cannot show: intents and past failures.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Desired, Effect, NodeReplacement, Phase, Replacement, RequestedAction, RolloutPhase, Verdict};

use crate::gate::{self, Closed};
use crate::ledger::{Entry, Load};
use crate::observed::{DrainState, NodeObserved, PoolObserved, Rollout};
use crate::{replace, time};

/// A kubelet that restarts is Ready again within two minutes. A node that reports its document as committed and is not Ready for longer is broken.
pub(crate) const NOT_READY_LIMIT: SignedDuration = SignedDuration::from_mins(5);
/// Begin of the reasons that say nothing about the document.
pub(crate) const DRAIN_FAILED: &str = "drain failed: ";

/// One node in a decision.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a turn")]
pub(crate) struct Turn<'a> {
    pub(crate) node: &'a NodeObserved,
    pub(crate) state: State,
    /// Number of its wave, or zero.
    pub(crate) wave: usize,
    /// Effect of the document on the node, if it is known.
    pub(crate) effect: Option<Effect>,
    /// Whether it started and has not ended. A decision changes it.
    pub(crate) in_flight: bool,
    /// Whether it is held, or an earlier decision held it. A decision changes it.
    pub(crate) holding: bool,
    /// Whether its document was removed and kilnd has not answered.
    pub(crate) is_leaving: bool,
    /// Whether the rollout replaces nodes, so that kilnd does not take part.
    pub(crate) is_image: bool,
}

/// The state of a turn.
pub(crate) enum State {
    /// The target is in force without this rollout.
    UpToDate,
    /// Its machine must not be replaced, or is not known yet.
    Kept,
    /// A new node, which first gets the last complete target from its pool.
    New,
    /// Not started; `intended` if an earlier decision started it and the node does not show it.
    Candidate {
        intended: bool,
    },
    Busy(Progress),
    Updated,
    /// With the reason, if this decision is the first to see it.
    Failed(Option<String>),
    /// On its way to the previous target.
    Returning(Progress),
    Returned,
    /// Did not return to the previous target; with the reason, if this decision is the first to see it.
    Lost(Option<String>),
}

/// Progress of a node in flight.
pub(crate) enum Progress {
    /// kilnd works.
    Working,
    /// kilnd waits for the operator.
    Asking(RequestedAction),
    /// The document is in force, and a gate is closed.
    Gated(Closed),
    /// The node is replaced by a new machine.
    Replacing { removing: bool },
}

enum Outcome {
    Going(Progress),
    Done,
    Failed(String),
}

/// Names in the status, indexed.
pub(crate) struct Memory<'a> {
    pub(crate) in_flight: HashSet<&'a str>,
    pub(crate) held: HashSet<&'a str>,
    pub(crate) failed: HashSet<&'a str>,
    pub(crate) replacements: HashMap<&'a str, &'a NodeReplacement>,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(rollout: &Rollout<'a>) -> Self {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect();
        let status = rollout.status;
        let entries = status.replacements.iter().map(|entry| (entry.node.as_str(), entry));
        Self {
            in_flight: set(&status.in_flight),
            held: set(&status.held),
            failed: set(&status.failed_nodes),
            replacements: entries.collect(),
        }
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        node: &'a NodeObserved,
        rollout: &Rollout<'a>,
        memory: &Memory<'_>,
        pool: Option<&PoolObserved>,
        digest: &str,
        now: Timestamp,
    ) -> Self {
        if rollout.is_image() {
            return replace::turn(node, rollout, memory, digest);
        }
        let name = node.name.as_str();
        let listed = memory.in_flight.contains(name);
        let is_returning = rollout.status.phase == RolloutPhase::RollingBack;
        let mut turn = Self {
            node,
            state: State::Candidate { intended: listed },
            wave: 0,
            effect: node.expected_effect,
            in_flight: listed,
            holding: node.held || memory.held.contains(name),
            is_leaving: is_returning && node.desired.is_none() && !node.observed,
            is_image: false,
        };
        match &node.desired {
            Some(desired) if desired.rollout == rollout.name => {
                turn.wave = desired.wave as usize;
                turn.classify(rollout, memory, desired, digest, now);
            }
            Some(desired) if desired.digest == digest && node.observed && is_committed(node, digest) => {
                turn.state = State::UpToDate;
            }
            // Deleted and created again under the same name.
            Some(_) if memory.failed.contains(name) => turn.state = State::Failed(None),
            None if pool.is_some_and(|pool| pool.previous.is_some()) && !listed => turn.state = State::New,
            _ => {}
        }
        turn.in_flight = match &turn.state {
            // A node that became unavailable is not started, so its place is free.
            State::Candidate { intended } => *intended && node.is_available(),
            // An earlier decision assigned the previous target, and the node does not show it.
            State::Updated | State::Failed(_) => listed && is_returning,
            state => matches!(state, State::Busy(_) | State::Returning(_)),
        };
        turn.holding &= turn.in_flight;
        turn
    }

    fn classify(
        &mut self,
        rollout: &Rollout<'_>,
        memory: &Memory<'_>,
        desired: &Desired,
        digest: &str,
        now: Timestamp,
    ) {
        let name = self.node.name.as_str();
        let forward = desired.digest == digest;
        // During a rollback, a node with the target in force waits for its return and not for its gates.
        let waits_for_return = forward && rollout.status.phase == RolloutPhase::RollingBack;
        let has_ended = !memory.in_flight.contains(name) || waits_for_return && is_committed(self.node, digest);
        if !forward {
            self.effect = None;
        }
        // The reported effect is that of a document that is not in force yet.
        if self.node.observed {
            self.effect = self.node.status.effect.or(self.effect);
        }
        if forward && memory.failed.contains(name) {
            self.state = State::Failed(None);
            return;
        }
        let wave = self.wave.checked_sub(1).and_then(|index| rollout.status.waves.get(index));
        let is_watched = forward && wave.is_none_or(|wave| wave.verdict != Verdict::Passed);
        self.state = match (self.outcome(rollout, desired, has_ended, is_watched, now), forward) {
            (Outcome::Going(progress), true) => State::Busy(progress),
            (Outcome::Done, true) => State::Updated,
            (Outcome::Failed(reason), true) => State::Failed(Some(reason)),
            // A node that was given up is not tried again, or a blocked drain would be repeated for ever.
            (Outcome::Going(_), false) if has_ended => State::Lost(None),
            (Outcome::Going(progress), false) => State::Returning(progress),
            (Outcome::Done, false) => State::Returned,
            // Broken or silent, but with the previous document in force, as far as kilnd reported.
            (Outcome::Failed(_), false) if is_committed(self.node, &desired.digest) => State::Returned,
            (Outcome::Failed(reason), false) => State::Lost((!has_ended).then_some(reason)),
        };
    }

    fn outcome(
        &mut self,
        rollout: &Rollout<'_>,
        desired: &Desired,
        has_ended: bool,
        is_watched: bool,
        now: Timestamp,
    ) -> Outcome {
        let (node, policy) = (self.node, rollout.policy);
        let status = &node.status;
        if node.observed
            && status.phase == Phase::Reverted
            && let Some(reverted) = status.reverted.as_ref().filter(|reverted| reverted.digest == desired.digest)
        {
            return Outcome::Failed(reverted.reason.clone());
        }
        let mut closed = None;
        // The operator's release changes the generation, so a node that has ended does not have to answer it.
        if is_committed(node, &desired.digest) && (node.observed || has_ended) {
            let changed = node.ready_changed(now);
            if !node.ready && time::elapsed(changed, now) >= NOT_READY_LIMIT && (is_watched || !has_ended) {
                return Outcome::Failed(format!("not Ready for {NOT_READY_LIMIT:#} with the document in force"));
            }
            closed = if has_ended { None } else { gate::closed(&policy.gates, node, now) };
            if closed.is_none() {
                return Outcome::Done;
            }
        } else if node.observed && status.phase == Phase::Pending && status.requests.digest == desired.digest {
            let forbids = rollout.spec.replacement == Replacement::Never;
            match (status.requests.action, &node.drain) {
                (Some(RequestedAction::Replace), _) => {
                    return Outcome::Failed("the change needs a new node".to_owned());
                }
                (Some(RequestedAction::Drain | RequestedAction::Reboot), _) if forbids && !node.held => {
                    return Outcome::Failed("the change needs a drain, which `replacement: Never` forbids".to_owned());
                }
                (_, DrainState::Failed { reason }) => return Outcome::Failed(format!("{DRAIN_FAILED}{reason}")),
                (_, DrainState::Running { since }) if time::elapsed(*since, now) >= policy.drain_timeout => {
                    let limit = policy.drain_timeout;
                    return Outcome::Failed(format!("{DRAIN_FAILED}not finished within {limit:#}"));
                }
                (Some(action), _) if !self.has_consent(action, &desired.digest) => {
                    let least = match action {
                        RequestedAction::Apply => self.effect,
                        RequestedAction::Drain => Some(Effect::Drain),
                        RequestedAction::Reboot | RequestedAction::Replace => Some(Effect::Reboot),
                    };
                    self.effect = self.effect.max(least);
                    return Outcome::Going(Progress::Asking(action));
                }
                _ => {}
            }
        }
        let since = time::parse(&desired.since).max(node.written).unwrap_or(now);
        if time::elapsed(since, now) >= policy.node_timeout {
            let limit = policy.node_timeout;
            return Outcome::Failed(match closed {
                Some(closed) => format!("a gate did not open within {limit:#}: {}", closed.message),
                None if node.observed => format!("not updated within {limit:#}: {}", status.message),
                None => format!("kilnd did not answer within {limit:#}"),
            });
        }
        Outcome::Going(closed.map_or(Progress::Working, Progress::Gated))
    }

    fn has_consent(&self, action: RequestedAction, digest: &str) -> bool {
        let node = self.node;
        let wants_boot = action == RequestedAction::Reboot && is_in_force(node, digest);
        let boots = node.reboot.as_deref() == Some(node.status.boot_id.as_str());
        // A hold that was removed by hand: the node has to be drained again before it changes.
        let is_drained = action == RequestedAction::Apply || node.held;
        is_drained && node.allow.as_deref() == Some(digest) && (!wants_boot || boots)
    }

    /// Whether it was started with the target, and the target is assigned.
    pub(crate) fn is_forward(&self) -> bool {
        matches!(self.state, State::Busy(_) | State::Updated | State::Failed(_))
    }

    /// Its entry in the ledger of unavailable nodes.
    pub(crate) fn entry(&self) -> Entry {
        let asks = matches!(&self.state, State::Busy(Progress::Asking(_)) | State::Returning(Progress::Asking(_)));
        // Its time limit passed, or its document was removed, but kilnd may still change it.
        let may_change = !self.is_image
            && (self.is_leaving || matches!(self.state, State::Failed(_) | State::Lost(_)) && !self.is_settled());
        let load = if !self.node.is_available() || self.holding {
            Load::All
        } else if self.in_flight && asks {
            Load::Asking
        } else if self.in_flight || may_change {
            Load::Effect
        } else {
            Load::None
        };
        let ours = self.in_flight || self.node.held || may_change;
        Entry { load, ours, asks: asks && !self.holding, effect: self.effect }
    }

    fn is_settled(&self) -> bool {
        self.node.observed && matches!(self.node.status.phase, Phase::Reverted | Phase::Pending | Phase::Current)
    }
}

fn is_in_force(node: &NodeObserved, digest: &str) -> bool {
    node.status.current.as_ref().is_some_and(|current| current.digest == digest)
}

/// Whether the document is in force and passed the node's own trial.
pub(crate) fn is_committed(node: &NodeObserved, digest: &str) -> bool {
    let status = &node.status;
    status.phase == Phase::Current
        && status.current.as_ref().is_some_and(|current| current.digest == digest && current.committed)
}
