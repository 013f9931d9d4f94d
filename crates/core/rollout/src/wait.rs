//! Sentences for `status.waitingFor`: why nothing starts, and what to do.

use std::fmt::Write as _;

use jiff::Timestamp;
use kiln_fleet_api::{Effect, WaitReason, WaitingFor};

use crate::decision::Act;
use crate::gate::Closed;
use crate::ledger::{Full, Load, domain};
use crate::observed::{Problem, Reading};
use crate::policy::Query;
use crate::time;
use crate::turn::{Progress, State, Turn};
use crate::work::{Denied, Work};

/// Names in `waitingFor.objects`; more would not help a reader.
const LISTED: usize = 10;

fn waiting<'n>(
    reason: WaitReason,
    message: String,
    until: Option<Timestamp>,
    objects: impl IntoIterator<Item = &'n str>,
) -> WaitingFor {
    let objects = objects.into_iter().take(LISTED).map(ToOwned::to_owned).collect();
    WaitingFor { reason, message, until: until.map(time::text), objects }
}

pub(crate) fn reference(problem: Problem) -> WaitingFor {
    waiting(WaitReason::Reference, problem.message, None, problem.objects.iter().map(String::as_str))
}

pub(crate) fn older(names: &[String]) -> WaitingFor {
    let message = "an older rollout has nodes of the same pool; wait for its end or abort it".to_owned();
    waiting(WaitReason::OtherRollout, message, None, names.iter().map(String::as_str))
}

pub(crate) fn no_nodes(pools: &[String]) -> WaitingFor {
    let message = "the pools have no nodes; check the labels in their `nodeSelector`".to_owned();
    waiting(WaitReason::NoNodes, message, None, pools.iter().map(String::as_str))
}

pub(crate) fn replacement(is_image: bool, limit: Effect, names: &[&str]) -> WaitingFor {
    let count = nodes(names.len());
    let message = if is_image {
        format!(
            "an image version needs a new machine for {count}, which `replacement: Never` forbids; create a Rollout with `replacement: WhenNeeded`"
        )
    } else if limit == Effect::Replace {
        format!("the change needs a new machine for {count}; replace them or use a document without that change")
    } else {
        format!(
            "the change needs a drain of {count}, which `replacement: Never` forbids; create a Rollout with `replacement: WhenNeeded`"
        )
    };
    waiting(WaitReason::Replacement, message, None, names.iter().copied())
}

pub(crate) fn approval(rollout: &str, wave: usize, expired: Option<&str>) -> WaitingFor {
    let why = expired.map(|until| format!("; the last approval ended at {until}")).unwrap_or_default();
    let message = format!(
        "wave {wave} needs an approval{why}: run `kiln rollout approve {rollout}` or set `spec.approvedWave` to {wave}"
    );
    waiting(WaitReason::Approval, message, None, [])
}

pub(crate) fn soak(wave: usize, until: Timestamp) -> WaitingFor {
    waiting(WaitReason::Soak, format!("wave {wave} is watched until {}", time::text(until)), Some(until), [])
}

pub(crate) fn gate(node: &str, closed: &Closed) -> WaitingFor {
    let message = format!("a gate of node `{node}` is closed: {}", closed.message);
    waiting(WaitReason::Gate, message, closed.until, [node])
}

pub(crate) fn query(query: &Query, reading: Option<&Reading>) -> WaitingFor {
    let why = match reading.map(|reading| &reading.value) {
        None => "has no result yet".to_owned(),
        Some(Ok(value)) => format!("gave {value}, which is inconclusive"),
        Some(Err(error)) => format!("is inconclusive: {error}"),
    };
    let message = format!("query `{}` {why}; check the query and the server at {}", query.query, query.url);
    waiting(WaitReason::Gate, message, None, [])
}

/// Returns what an open rollout waits for, and whether only a person can end it. A rollout that starts something waits for nothing.
pub(crate) fn answer(work: &mut Work<'_>) -> Option<(WaitingFor, bool)> {
    if work.status.phase.is_final() || work.acts.iter().any(Act::is_start) {
        return None;
    }
    if let Some(wait) = work.wait.take() {
        let is_stalled = matches!(wait.reason, WaitReason::Reference | WaitReason::Replacement);
        return Some((wait, is_stalled));
    }
    let active = |turn: &&Turn<'_>| turn.in_flight && (turn.holding || turn.entry().load != Load::Asking);
    let active: Vec<&Turn<'_>> = work.turns.iter().filter(active).collect();
    let denied = if work.rollout.spec.paused { Some(Denied::Paused) } else { work.denied };
    match denied {
        Some(denied @ (Denied::Paused | Denied::PoolPaused(_) | Denied::Frozen(_))) => {
            Some((stopped(work, denied, active.len()), false))
        }
        _ if !active.is_empty() => {
            let mut wait = in_flight(&active);
            if let Some(obstacle) = work.observed.pools.iter().find_map(|pool| pool.obstacle.as_ref()) {
                let _ = write!(wait.message, "; {obstacle}");
            }
            Some((wait, false))
        }
        Some(Denied::Window(effect, until)) => Some((window(effect, until), until.is_none())),
        Some(Denied::Budget(_)) if work.acts.iter().any(|act| matches!(act, Act::Release { .. })) => {
            let names = work.acts.iter().filter_map(Act::node);
            Some((waiting(WaitReason::Nodes, "nodes that ended are released".to_owned(), None, names), false))
        }
        Some(Denied::Budget(full)) => Some((budget(work, full), full.limit == 0)),
        _ => Some((rest(work), false)),
    }
}

fn stopped(work: &Work<'_>, denied: Denied<'_>, active: usize) -> WaitingFor {
    let finishing = if active > 0 { format!("; {} in flight will be finished", nodes(active)) } else { String::new() };
    match denied {
        Denied::Frozen(freeze) => {
            let name = &freeze.name;
            let message = format!("Freeze `{name}` exists ({}); delete it to continue{finishing}", freeze.reason);
            waiting(WaitReason::Freeze, message, freeze.until, [name.as_str()])
        }
        Denied::PoolPaused(pool) => {
            let message = format!("pool `{pool}` is paused; set its `spec.paused` to false to continue{finishing}");
            waiting(WaitReason::Paused, message, None, [pool])
        }
        _ => {
            let name = work.rollout.name;
            let message = format!("the rollout is paused; run `kiln rollout resume {name}` to continue{finishing}");
            waiting(WaitReason::Paused, message, None, [])
        }
    }
}

/// Nodes that work. If all of them wait for a gate, the gate is the reason.
fn in_flight(active: &[&Turn<'_>]) -> WaitingFor {
    let gates = active.iter().map(|turn| match &turn.state {
        State::Busy(Progress::Gated(closed)) | State::Returning(Progress::Gated(closed)) => Some((turn.node, closed)),
        _ => None,
    });
    let names = active.iter().map(|turn| turn.node.name.as_str());
    if let Some(gates) = gates.collect::<Option<Vec<_>>>()
        && let Some((node, closed)) = gates.first()
    {
        let until = gates.iter().filter_map(|(_, closed)| closed.until).min();
        return WaitingFor {
            objects: names.take(LISTED).map(ToOwned::to_owned).collect(),
            ..gate(&node.name, &Closed { until, ..(*closed).clone() })
        };
    }
    let first = active[0];
    let message = format!("{} in flight; `{}` is {}", nodes(active.len()), first.node.name, step(first));
    waiting(WaitReason::Nodes, message, None, names)
}

fn step(turn: &Turn<'_>) -> String {
    match &turn.state {
        State::Busy(Progress::Replacing { removing: true })
        | State::Returning(Progress::Replacing { removing: true }) => "being removed".to_owned(),
        State::Busy(Progress::Replacing { .. }) | State::Returning(Progress::Replacing { .. }) if turn.holding => {
            "being drained".to_owned()
        }
        State::Busy(Progress::Replacing { .. }) | State::Returning(Progress::Replacing { .. }) => {
            "waiting for its new machine".to_owned()
        }
        State::Busy(Progress::Asking(_)) | State::Returning(Progress::Asking(_)) => "being drained".to_owned(),
        State::Busy(Progress::Gated(closed)) | State::Returning(Progress::Gated(closed)) => {
            format!("waiting for a gate: {}", closed.message)
        }
        State::Busy(_) | State::Returning(_) if turn.node.reboot.is_some() && !turn.node.ready => {
            "rebooting".to_owned()
        }
        State::Busy(_) | State::Returning(_) if turn.node.observed => {
            format!("in phase {}", turn.node.status.phase.as_str())
        }
        _ => "waiting for its kilnd".to_owned(),
    }
}

fn window(effect: Effect, until: Option<Timestamp>) -> WaitingFor {
    let message = match until {
        Some(until) => format!("the window for changes with the effect `{effect}` opens at {}", time::text(until)),
        None => format!(
            "no window is long enough for changes with the effect `{effect}`, as measured in the past; extend a window"
        ),
    };
    waiting(WaitReason::Window, message, until, [])
}

fn budget(work: &Work<'_>, full: Full<'_>) -> WaitingFor {
    let budget = full.budget;
    let place = budget.topology_key.as_ref().map(|key| format!(" in {key}={}", full.domain)).unwrap_or_default();
    let limit = budget.max_unavailable;
    if full.limit == 0 {
        let message = format!("the budget `maxUnavailable: {limit}` allows no node{place}; raise it");
        return waiting(WaitReason::Budget, message, None, []);
    }
    let is_here = |turn: &&Turn<'_>| (domain(budget, turn.node) == full.domain) != full.is_other_domain;
    let taking = work.turns.iter().filter(is_here).filter(|turn| !matches!(turn.entry().load, Load::None));
    let names: Vec<&str> = taking.map(|turn| turn.node.name.as_str()).collect();
    let message = if full.is_other_domain {
        format!("nodes of another domain are in flight, and the budget allows one domain at a time{place}")
    } else {
        let count = nodes(names.len());
        format!(
            "the budget `maxUnavailable: {limit}`{place} has no place: {count} unavailable or in flight; make them Ready and uncordon them"
        )
    };
    waiting(WaitReason::Budget, message, None, names)
}

/// Nodes that cannot start, and records that are not written yet.
fn rest(work: &Work<'_>) -> WaitingFor {
    let left = |wanted: fn(&State) -> bool| -> Vec<&str> {
        work.turns.iter().filter(|turn| wanted(&turn.state)).map(|turn| turn.node.name.as_str()).collect()
    };
    let unavailable = left(|state| matches!(state, State::Candidate { .. }));
    if !unavailable.is_empty() {
        let count = nodes(unavailable.len());
        let message = format!("{count} left, which are not Ready or are cordoned; repair, uncordon or delete them");
        return waiting(WaitReason::Nodes, message, None, unavailable);
    }
    let new = left(|state| matches!(state, State::New));
    if !new.is_empty() {
        let message = format!("{} left, which get the last complete target of their pool first", nodes(new.len()));
        return waiting(WaitReason::Nodes, message, None, new);
    }
    waiting(WaitReason::Nodes, "no node is in flight; the operator records the result".to_owned(), None, [])
}

/// A number of nodes as text.
pub(crate) fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
