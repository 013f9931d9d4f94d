//! A decision in progress.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Desired, Effect, RolloutStatus, WaitingFor};

use crate::decision::{Act, Decision, Notice, Severity};
use crate::ledger::{Full, Ledger, Load};
use crate::observed::{FreezeObserved, Observed, PastTurn, PoolObserved, ResolvedTarget, Rollout};
use crate::time;
use crate::turn::{Memory, State, Turn};
use crate::window::Access;

/// All inputs, indexed once, and the growing result.
pub(crate) struct Work<'a> {
    pub(crate) rollout: Rollout<'a>,
    pub(crate) observed: &'a Observed,
    pub(crate) now: Timestamp,
    pub(crate) status: RolloutStatus,
    /// By name of the node.
    pub(crate) turns: Vec<Turn<'a>>,
    pub(crate) acts: Vec<Act>,
    pub(crate) queries: Vec<usize>,
    pub(crate) notices: Vec<Notice>,
    /// The first reason why a node was not started.
    pub(crate) denied: Option<Denied<'a>>,
    /// The reason why no node was started at all.
    pub(crate) wait: Option<WaitingFor>,
    /// Names of nodes that were in flight and do not exist any more.
    pub(crate) gone: Vec<String>,
    /// The end of the sentence about a failure.
    pub(crate) remark: &'static str,
    ledger: Ledger<'a>,
    access: [Access; Effect::ALL.len()],
    pools: HashMap<&'a str, &'a PoolObserved>,
    freezes: HashMap<&'a str, &'a FreezeObserved>,
    wake: Option<Timestamp>,
}

/// Why a node may not start now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Denied<'a> {
    Paused,
    PoolPaused(&'a str),
    Frozen(&'a FreezeObserved),
    Window(Effect, Option<Timestamp>),
    Budget(Full<'a>),
}

/// The kinds of starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The assignment of a document.
    Assign,
    /// The disturbance of a node that waits for consent.
    Consent,
}

impl<'a> Work<'a> {
    pub(crate) fn new(rollout: &Rollout<'a>, observed: &'a Observed, now: Timestamp) -> Self {
        let memory = Memory::new(rollout);
        let pools: HashMap<_, _> = observed.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        let digest = match (&observed.target, rollout.status.digest.as_str()) {
            (Ok(target), "") => target.digest.as_str(),
            (_, digest) => digest,
        };
        let mut turns: Vec<Turn<'_>> = (observed.nodes.iter())
            .map(|node| Turn::new(node, rollout, &memory, pools.get(node.pool.as_str()).copied(), digest, now))
            .collect();
        turns.sort_unstable_by(|a, b| a.node.name.cmp(&b.node.name));
        turns.dedup_by(|a, b| a.node.name == b.node.name);
        let is_known = |name: &str| turns.binary_search_by(|turn| turn.node.name.as_str().cmp(name)).is_ok();
        // A node whose machine is being deleted disappears as planned.
        let is_removed = |name: &str| memory.replacements.get(name).is_some_and(|entry| entry.removing);
        let gone = rollout.status.in_flight.iter().filter(|name| !is_known(name) && !is_removed(name));
        let gone = gone.cloned().collect();
        let past = percentiles(&observed.past);
        let windows = &rollout.policy.windows;
        let mut work = Self {
            rollout: *rollout,
            observed,
            now,
            status: rollout.status.clone(),
            ledger: Ledger::new(&rollout.policy.budgets, &turns),
            turns,
            acts: Vec::new(),
            queries: Vec::new(),
            notices: Vec::new(),
            denied: None,
            wait: None,
            gone,
            remark: "",
            access: Effect::ALL.map(|effect| windows.access(effect, past[effect as usize], now)),
            pools,
            freezes: HashMap::new(),
            wake: None,
        };
        work.index_freezes();
        work
    }

    fn index_freezes(&mut self) {
        for freeze in &self.observed.freezes {
            match freeze.until {
                Some(until) if until <= self.now => continue,
                Some(until) => self.wake_at(until),
                None => {}
            }
            for pool in self.observed.pools.iter().map(|pool| pool.name.as_str()) {
                if freeze.pools.is_empty() || freeze.pools.iter().any(|name| name == pool) {
                    self.freezes.entry(pool).or_insert(freeze);
                }
            }
        }
    }

    /// Decides again at this time, unless it has passed.
    pub(crate) fn wake_at(&mut self, time: Timestamp) {
        if time > self.now {
            self.wake = Some(self.wake.map_or(time, |wake| wake.min(time)));
        }
    }

    pub(crate) fn notice(&mut self, severity: Severity, reason: &'static str, message: String, node: Option<&str>) {
        self.notices.push(Notice { severity, reason, message, node: node.map(ToOwned::to_owned) });
    }

    /// Checks pause, freezes, windows and budgets for a turn. If it may start, it takes its place.
    pub(crate) fn start(&mut self, index: usize, effect: Option<Effect>, start: Start) -> bool {
        let node = self.turns[index].node;
        let before = self.turns[index].entry();
        self.ledger.remove(node, before);
        let permit = self.permit(index, effect, start);
        if permit.is_ok() {
            let turn = &mut self.turns[index];
            turn.in_flight = true;
            turn.effect = effect;
            turn.holding |= start == Start::Consent && effect.is_some_and(|effect| effect >= Effect::Drain);
        }
        let mut entry = self.turns[index].entry();
        if permit.is_ok() {
            entry.asks = false;
            entry.load = if entry.load == Load::Asking { Load::Effect } else { entry.load };
        }
        self.ledger.enter(node, entry);
        match permit {
            Ok(()) => true,
            Err(denied) => {
                if let Denied::Window(_, Some(until)) = denied {
                    self.wake_at(until);
                }
                self.denied.get_or_insert(denied);
                false
            }
        }
    }

    /// Forgets nodes that an earlier decision started and that do not show it.
    pub(crate) fn drop_intents(&mut self) {
        for turn in self.turns.iter_mut().filter(|turn| matches!(turn.state, State::Candidate { .. })) {
            self.ledger.remove(turn.node, turn.entry());
            (turn.in_flight, turn.holding) = (false, false);
            self.ledger.enter(turn.node, turn.entry());
        }
    }

    /// Forgets that an earlier decision held a node.
    pub(crate) fn drop_hold(&mut self, index: usize) {
        let turn = &mut self.turns[index];
        self.ledger.remove(turn.node, turn.entry());
        turn.holding = false;
        self.ledger.enter(turn.node, turn.entry());
    }

    /// The turn of a node, by its name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.turns.binary_search_by(|turn| turn.node.name.as_str().cmp(name)).ok()
    }

    /// Changes the state of a turn that is not in flight any more.
    pub(crate) fn end(&mut self, index: usize, state: State) {
        let turn = &mut self.turns[index];
        self.ledger.remove(turn.node, turn.entry());
        (turn.state, turn.in_flight, turn.holding) = (state, false, false);
        self.ledger.enter(turn.node, turn.entry());
    }

    /// Changes the state of a turn that starts or continues.
    pub(crate) fn advance(&mut self, index: usize, state: State, wave: usize) {
        let turn = &mut self.turns[index];
        self.ledger.remove(turn.node, turn.entry());
        (turn.state, turn.wave) = (state, wave);
        self.ledger.enter(turn.node, turn.entry());
    }

    fn permit(&self, index: usize, effect: Option<Effect>, start: Start) -> Result<(), Denied<'a>> {
        let node = self.turns[index].node;
        let pool = node.pool.as_str();
        if self.rollout.spec.paused {
            return Err(Denied::Paused);
        }
        if let Some(freeze) = self.freezes.get(pool) {
            return Err(Denied::Frozen(freeze));
        }
        if self.pools.get(pool).is_some_and(|pool| pool.paused) {
            return Err(Denied::PoolPaused(pool));
        }
        // An unknown effect can be any that needs no consent.
        for possible in Effect::ALL {
            if effect.map_or(possible < Effect::Drain, |effect| effect == possible)
                && let Access::Closed(until) = self.access[possible as usize]
            {
                return Err(Denied::Window(possible, until));
            }
        }
        if self.rollout.is_image() && !node.is_available() {
            // Its replacement makes no other node unavailable.
            return Ok(());
        }
        let returns_unavailable = self.turns[index].is_forward() && !node.is_available();
        if start == Start::Assign && returns_unavailable {
            // The node is already unavailable, and its previous document can only help.
            return Ok(());
        }
        let after_asking = start == Start::Assign && effect.is_none_or(|effect| effect >= Effect::Drain);
        self.ledger.check(node, effect, after_asking).map_err(Denied::Budget)
    }

    /// Assigns a document to a turn that was started.
    pub(crate) fn assign(&mut self, index: usize, target: &ResolvedTarget, wave: usize) {
        self.acts.push(Act::Assign {
            node: self.turns[index].node.name.clone(),
            desired: Desired {
                node_config: target.node_config.clone(),
                digest: target.digest.clone(),
                rollout: self.rollout.name.to_owned(),
                wave: u32::try_from(wave).unwrap_or(u32::MAX),
                since: time::text(self.now),
            },
        });
    }

    pub(crate) fn into_decision(self) -> Decision {
        let Self { acts, status, wake, queries, notices, .. } = self;
        Decision { acts, status, wake, queries, notices }
    }
}

/// The 95th percentile of past durations by effect; zero without any.
fn percentiles(past: &[PastTurn]) -> [SignedDuration; Effect::ALL.len()] {
    Effect::ALL.map(|effect| {
        let mut times: Vec<_> = past.iter().filter(|turn| turn.effect == effect).map(|turn| turn.took).collect();
        times.sort_unstable();
        // The smallest time that at least 95 % of the runs did not exceed.
        let rank = (times.len() * 95).div_ceil(100);
        rank.checked_sub(1).map_or(SignedDuration::ZERO, |index| times[index])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_time_that_19_of_20_runs_did_not_exceed() {
        let turns = |count: i64| -> Vec<PastTurn> {
            let took = (1..=count).map(SignedDuration::from_mins);
            took.map(|took| PastTurn { effect: Effect::Reboot, took }).collect()
        };
        for (count, minutes) in [(0, 0), (1, 1), (10, 10), (20, 19), (100, 95)] {
            let times = percentiles(&turns(count));
            assert_eq!(times[Effect::Reboot as usize], SignedDuration::from_mins(minutes), "{count} runs");
            assert_eq!(times[Effect::Drain as usize], SignedDuration::ZERO);
        }
    }
}
