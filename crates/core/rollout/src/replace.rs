//! Rollouts with an image version: each node is replaced by a new machine, by the rules of `kiln prototype refresh`.
//!
//! A machine is added first. When it is Ready and passed the gates, the old node is cordoned and drained, and its machine is deleted. Which nodes are in flight
//! is recorded in `status.replacements` before anything is done. How many machines are missing is a function of what exists: the pool has its wanted size and
//! one more machine for each node in flight.

use kiln_fleet_api::{Effect, NodeReplacement, PoolSize, RolloutPhase};

use crate::decision::{Act, Severity};
use crate::gate::{self, Closed};
use crate::observed::{DrainState, NodeObserved, Rollout};
use crate::time;
use crate::turn::{DRAIN_FAILED, Memory, NOT_READY_LIMIT, Progress, State, Turn};
use crate::wait;
use crate::wave::count;
use crate::work::{Start, Work};

/// Where a node is in a rollout with an image version.
pub(crate) fn turn<'a>(node: &'a NodeObserved, rollout: &Rollout<'a>, memory: &Memory<'_>, version: &str) -> Turn<'a> {
    let name = node.name.as_str();
    let is_returning = rollout.status.phase == RolloutPhase::RollingBack;
    let has_target = !version.is_empty() && node.image.as_deref() == Some(version);
    let entry = memory.replacements.get(name);
    let state = match entry {
        Some(entry) if is_returning => State::Returning(Progress::Replacing { removing: entry.removing }),
        Some(entry) => State::Busy(Progress::Replacing { removing: entry.removing }),
        None if node.stays.is_some() || node.image.is_none() => State::Kept,
        None if is_returning && has_target => State::Updated,
        None if memory.failed.contains(name) => State::Failed(None),
        None if is_returning || has_target => State::UpToDate,
        None => State::Candidate { intended: false },
    };
    let in_flight = entry.is_some();
    Turn {
        node,
        state,
        wave: entry.map_or(0, |entry| entry.wave as usize),
        effect: Some(Effect::Replace),
        in_flight,
        holding: in_flight && (node.held || memory.held.contains(name)),
        is_leaving: false,
        is_image: true,
    }
}

impl Work<'_> {
    /// Whether the machine of a node is of the kind that new machines are: of the target version, or on the way back of any other.
    fn is_new(&self, node: &NodeObserved) -> Option<bool> {
        let has_target = node.image.as_ref().map(|image| *image == self.status.digest)?;
        Some(has_target != self.is_returning())
    }

    pub(crate) fn is_returning(&self) -> bool {
        self.rollout.status.phase == RolloutPhase::RollingBack
    }

    fn entry(&mut self, node: &str) -> Option<&mut NodeReplacement> {
        self.status.replacements.iter_mut().find(|entry| entry.node == node)
    }
}

/// Records nodes that are gone, nodes that failed, and new machines that broke.
pub(crate) fn settle(work: &mut Work<'_>) {
    follow_sizes(work);
    let is_returning = work.is_returning();
    for entry in std::mem::take(&mut work.status.replacements) {
        if work.find(&entry.node).is_some() {
            work.status.replacements.push(entry);
        } else if entry.removing
            && !is_returning
            && let Some(wave) = (entry.wave as usize).checked_sub(1).and_then(|index| work.status.waves.get_mut(index))
        {
            wave.done += 1;
        }
    }
    if !is_returning {
        broken(work);
    }
    let mut spare = Spare::new(work);
    for index in in_flight(work) {
        let Some(failure) = failure(work, index, &mut spare) else { continue };
        let (name, wave) = (work.turns[index].node.name.clone(), work.turns[index].wave);
        work.status.replacements.retain(|entry| entry.node != name);
        match failure {
            Failure::Old(reason) if is_returning => work.end(index, State::Lost(Some(reason))),
            Failure::New(_, reason) if is_returning => work.end(index, State::Lost(Some(reason))),
            Failure::Old(reason) => work.end(index, State::Failed(Some(reason))),
            Failure::New(new, reason) => {
                work.end(index, State::Candidate { intended: false });
                work.turns[new].wave = wave;
                work.end(new, State::Failed(Some(reason)));
            }
        }
    }
}

/// What failed: the node in flight, or the new machine that was meant to replace it.
enum Failure {
    Old(String),
    New(usize, String),
}

/// New machines that were Ready and are not any more.
fn broken(work: &mut Work<'_>) {
    let current = work.status.waves.iter().rposition(|wave| wave.started_at.is_some()).map_or(0, |index| index + 1);
    for index in 0..work.turns.len() {
        let turn = &work.turns[index];
        let node = turn.node;
        let is_broken = !node.ready && time::elapsed(node.ready_changed(work.now), work.now) >= NOT_READY_LIMIT;
        // A machine that has just been added may take as long as the node that waits for it.
        let is_awaited = work.turns.iter().any(|one| one.node.pool == node.pool && one.in_flight && !one.holding);
        if is_broken && !is_awaited && is_watched(work, turn) {
            let reason = format!("not Ready for {NOT_READY_LIMIT:#} with the new image");
            work.turns[index].wave = current;
            work.end(index, State::Failed(Some(reason)));
        }
    }
}

/// Whether a new machine counts for the gates of waves. One that was not Ready before the rollout started does not.
pub(crate) fn is_watched(work: &Work<'_>, turn: &Turn<'_>) -> bool {
    let node = turn.node;
    let started = work.status.started_at.as_deref().and_then(time::parse);
    matches!(turn.state, State::UpToDate)
        && work.is_new(node) == Some(true)
        && started.is_some_and(|started| node.ready || node.ready_changed(work.now) >= started)
}

/// Follows others who change the capacity. A capacity that the rollout itself can have caused changes nothing.
fn follow_sizes(work: &mut Work<'_>) {
    for pool in &work.observed.pools {
        let Some(capacity) = pool.capacity else { continue };
        let size =
            work.status.sizes.entry(pool.name.clone()).or_insert(PoolSize { wanted: capacity, largest: capacity });
        if capacity > size.largest {
            size.wanted += capacity - size.largest;
            size.largest = capacity;
        } else if capacity < size.wanted {
            (size.wanted, size.largest) = (capacity, size.largest - (size.wanted - capacity));
        }
    }
}

/// Indexes of the nodes in flight, oldest first.
fn in_flight(work: &Work<'_>) -> Vec<usize> {
    let mut entries: Vec<&NodeReplacement> = work.status.replacements.iter().collect();
    entries.sort_by(|a, b| (&a.since, &a.node).cmp(&(&b.since, &b.node)));
    entries.into_iter().filter_map(|entry| work.find(&entry.node)).collect()
}

/// Machines of each pool that can take over the pods of a node.
struct Spare(Vec<(String, i64)>);

impl Spare {
    fn new(work: &Work<'_>) -> Self {
        let size = |pool: &str| work.status.sizes.get(pool).map(|size| size.wanted);
        let pools = work.observed.pools.iter().filter_map(|pool| Some((pool.name.clone(), size(&pool.name)?)));
        Self(pools.map(|(pool, wanted)| (pool.clone(), available(work, &pool) - wanted)).collect())
    }

    /// Takes one machine, if there is one.
    fn take(&mut self, pool: &str) -> bool {
        let spare = self.0.iter_mut().find(|(name, _)| name == pool).map(|(_, spare)| spare);
        spare.is_some_and(|spare| {
            *spare -= 1;
            *spare >= 0
        })
    }
}

/// Nodes of a pool that can run pods. An old node that others made unavailable counts, because it was missing before.
fn available(work: &Work<'_>, pool: &str) -> i64 {
    let counts = work.turns.iter().filter(|turn| turn.node.pool == pool).filter(|turn| {
        let node = turn.node;
        match work.is_new(node) {
            // A machine that is not known yet is most likely a new one.
            None | Some(true) => !node.cordoned && gate::closed(&work.rollout.policy.gates, node, work.now).is_none(),
            Some(false) if turn.in_flight && (turn.holding || is_removing(turn) || !node.is_available()) => false,
            Some(false) => true,
        }
    });
    count(counts.count())
}

fn is_removing(turn: &Turn<'_>) -> bool {
    matches!(
        turn.state,
        State::Busy(Progress::Replacing { removing: true }) | State::Returning(Progress::Replacing { removing: true })
    )
}

/// Why a node in flight failed. Nodes take the spare machines in their order.
fn failure(work: &Work<'_>, index: usize, spare: &mut Spare) -> Option<Failure> {
    let (turn, policy) = (&work.turns[index], work.rollout.policy);
    let node = turn.node;
    if is_removing(turn) {
        return None;
    }
    match &node.drain {
        DrainState::Failed { reason } => return Some(Failure::Old(format!("{DRAIN_FAILED}{reason}"))),
        DrainState::Running { since } if time::elapsed(*since, work.now) >= policy.drain_timeout => {
            return Some(Failure::Old(format!("{DRAIN_FAILED}not finished within {:#}", policy.drain_timeout)));
        }
        _ => {}
    }
    if turn.holding || !node.is_available() || spare.take(&node.pool) {
        return None;
    }
    let entry = work.status.replacements.iter().find(|entry| entry.node == node.name)?;
    let since = time::past(Some(&entry.since), work.now).unwrap_or(work.now);
    let limit = policy.node_timeout;
    (time::elapsed(since, work.now) >= limit).then(|| missing(work, &node.pool, &format!("{limit:#}")))
}

/// What a new machine of a pool lacks.
fn missing(work: &Work<'_>, pool: &str, limit: &str) -> Failure {
    let mut new = work.turns.iter().enumerate().filter(|(_, turn)| {
        turn.node.pool == pool && work.is_new(turn.node) == Some(true) && !matches!(turn.state, State::Failed(_))
    });
    let closed = |turn: &Turn<'_>| gate::closed(&work.rollout.policy.gates, turn.node, work.now);
    if let Some((index, Closed { message, .. })) = new.find_map(|(index, turn)| Some((index, closed(turn)?))) {
        return Failure::New(index, format!("{message} {limit} after its machine was requested"));
    }
    let obstacle = work.observed.pools.iter().find(|one| one.name == pool).and_then(|pool| pool.obstacle.clone());
    let why = obstacle.unwrap_or_else(|| "no further node has joined".to_owned());
    Failure::Old(format!("no new machine within {limit}: {why}"))
}

/// Takes the next step of each node in flight.
pub(crate) fn proceed(work: &mut Work<'_>) {
    let mut spare = Spare::new(work);
    for index in in_flight(work) {
        let turn = &work.turns[index];
        let (node, name) = (turn.node, turn.node.name.clone());
        if is_removing(turn) {
            work.acts.push(Act::Remove { node: name });
            continue;
        }
        match (node.held, &node.drain) {
            (true, DrainState::Done) => {
                if let Some(entry) = work.entry(&name) {
                    entry.removing = true;
                }
                work.acts.push(Act::Remove { node: name });
            }
            // The operator died between the hold and the drain.
            (true, DrainState::None) => work.acts.push(Act::Drain { node: name }),
            (true, DrainState::Running { .. } | DrainState::Failed { .. }) => {}
            (false, _) => {
                let is_covered = turn.holding || !node.is_available() || spare.take(&node.pool);
                if is_covered && work.start(index, Some(Effect::Replace), Start::Consent) {
                    work.acts.push(Act::Drain { node: name });
                }
            }
        }
    }
}

/// Starts the replacement of a node.
pub(crate) fn begin(work: &mut Work<'_>, index: usize, wave: usize) {
    let node = work.turns[index].node;
    work.status.replacements.push(NodeReplacement {
        node: node.name.clone(),
        pool: node.pool.clone(),
        wave: u32::try_from(wave).unwrap_or(u32::MAX),
        since: time::text(work.now),
        removing: false,
    });
    let progress = Progress::Replacing { removing: false };
    let state = if work.is_returning() { State::Returning(progress) } else { State::Busy(progress) };
    work.advance(index, state, wave);
}

/// Adds the machines that are missing: one for each node in flight whose machine still exists.
pub(crate) fn grow(work: &mut Work<'_>) {
    for pool in &work.observed.pools {
        let entries = work.status.replacements.iter().filter(|entry| entry.pool == pool.name && !entry.removing);
        // A new machine that failed replaces nothing.
        let is_failed = |turn: &&Turn<'_>| {
            let is_new = !work.is_returning() && work.is_new(turn.node) == Some(true);
            is_new && turn.node.pool == pool.name && !turn.node.is_available() && matches!(turn.state, State::Failed(_))
        };
        let (more, failed) = (count(entries.count()), count(work.turns.iter().filter(is_failed).count()));
        let (Some(capacity), Some(size)) = (pool.capacity, work.status.sizes.get_mut(&pool.name)) else { continue };
        let to = size.wanted + more + failed;
        if more > 0 && capacity < to {
            size.largest = size.largest.max(to);
            work.acts.push(Act::Grow { pool: pool.name.clone(), to });
        }
    }
}

/// Wakes the operator when a limit of a node passes or a gate opens.
pub(crate) fn deadlines(work: &mut Work<'_>, index: usize) {
    let policy = work.rollout.policy;
    let node = work.turns[index].node;
    let mut times = Vec::new();
    if work.turns[index].in_flight {
        let since = work.entry(&node.name).and_then(|entry| time::parse(&entry.since));
        times.extend(since.map(|since| time::add(since, policy.node_timeout)));
        if let DrainState::Running { since } = node.drain {
            times.push(time::add(since, policy.drain_timeout));
        }
    } else if work.is_new(node) == Some(true) {
        times.extend(gate::closed(&policy.gates, node, work.now).and_then(|closed| closed.until));
        if !node.ready {
            times.push(time::add(node.ready_changed(work.now), NOT_READY_LIMIT));
        }
    }
    for time in times {
        work.wake_at(time);
    }
}

/// Replaced nodes and all nodes.
pub(crate) fn progress(work: &Work<'_>) -> (usize, usize) {
    let sizes = work.status.sizes.values().map(|size| size.wanted).sum::<i64>();
    let total =
        if work.status.sizes.is_empty() { work.turns.len() } else { usize::try_from(sizes).unwrap_or_default() };
    let old = work.turns.iter().filter(|turn| turn.node.image.as_ref() != Some(&work.status.digest)).count();
    (total.saturating_sub(old), total)
}

/// Reports the nodes that keep their machines.
pub(crate) fn name_kept(work: &mut Work<'_>) {
    let kept =
        work.turns.iter().filter(|turn| matches!(turn.state, State::Kept) && work.is_new(turn.node) == Some(false));
    let names: Vec<String> =
        kept.filter_map(|turn| Some(format!("`{}` ({})", turn.node.name, turn.node.stays.as_ref()?))).collect();
    if !names.is_empty() {
        let message = format!("{} not replaced: {}", wait::nodes(names.len()), names.join(", "));
        work.notice(Severity::Warning, "NodesKept", message, None);
    }
}
