//! What would have saved time, with the seconds, from what is recorded of the way.

mod words;

use serde::Serialize;

use super::{Fact, Hop, MANAGER, Wait};
use crate::model::{Boot, Released, UnitName};
use crate::order::{Cut, Order, waited_for};
use crate::span::Usec;

/// What would have saved less than this is no finding.
const WORTH: Usec = Usec(500_000);

/// Of the hops that ran or waited longest, so many are looked at. A person does not read more, and each costs a reckoning of the whole
/// order: without a bound a made-up capture of 100,000 slow units would take hours.
const LOOKED_AT: usize = 24;

/// Units that run beside a slow one and hold up as much: so many are named with it. With more it is the machine that is slow.
const BESIDE: usize = 3;

/// Before the first unit PID 1 is at work for a time that not every record holds. On a machine that is emulated it was 4.2 s; so much is not
/// held against anybody.
const START: Usec = Usec(5_000_000);

/// Targets that wait for everything that is enabled.
const LAST: [&str; 2] = ["multi-user.target", "graphical.target"];

/// A thing that would have saved time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// The unit that it is about.
    pub unit: UnitName,
    /// Units that ran beside it and would have held up as much: the time is saved when they are quick too.
    pub beside: Vec<UnitName>,
    /// How much earlier the unit in question would have started; for its own time, how much earlier it would have been active.
    pub saves: Usec,
    /// What was found.
    pub found: String,
    /// What to do.
    pub advice: String,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// The machine was made ahead and waited for its owner. Not the boot's fault.
    Preprovisioning,
    /// Something waits until the network is configured.
    WaitOnline,
    /// cloud-init stands in the way.
    CloudInit,
    /// Azure's agent stands in the way.
    Agent,
    /// The kernel found a device late.
    Device,
    /// It is ordered after a target that waits for everything.
    Order,
    /// PID 1 was long at its generators and unit files.
    Manager,
    /// It started when somebody outside systemd asked for it.
    Outside,
    /// Another unit that took long.
    Slow,
    /// Time went by, and the record lacks the fact that would tell where.
    Unknown,
}

pub(super) fn of(boot: &Boot, id: &str, hops: &[Hop]) -> Vec<Finding> {
    let order = Order::of(boot, id);
    let mut all: Vec<Finding> = Vec::new();
    for (index, hop) in longest(hops, |hop| hop.ran.unwrap_or_default()) {
        all.extend(if index == 0 { words::own(hop) } else { slow(&order, hops, hop) });
    }
    for (_, hop) in longest(hops, |hop| hop.waited) {
        all.extend(waited(boot, &order, hop));
    }
    all.extend(late(boot, &order, hops));
    all.retain(|finding| finding.saves >= WORTH);
    all.extend(agent(boot, hops));
    // Of two that save alike, the one that is easier to do something about.
    all.sort_by_key(|finding| (std::cmp::Reverse(finding.saves), finding.kind));
    all
}

/// The hops that count most by some measure, in the order of the way.
fn longest(hops: &[Hop], measure: impl Fn(&Hop) -> Usec) -> Vec<(usize, &Hop)> {
    let mut all: Vec<(usize, &Hop)> = hops.iter().enumerate().filter(|(_, hop)| measure(hop) >= WORTH).collect();
    all.sort_by_key(|(_, hop)| std::cmp::Reverse(measure(hop)));
    all.truncate(LOOKED_AT);
    all.sort_by_key(|(index, _)| *index);
    all
}

fn slow(order: &Order<'_>, hops: &[Hop], hop: &Hop) -> Option<Finding> {
    if hop.unit.as_str() == MANAGER {
        return Some(words::manager(hop));
    }
    let took = hop.ran?;
    let mut cuts = vec![Cut::Time(order.place(hop.unit.as_str())?)];
    let mut saves = order.saves(&cuts);
    let mut beside = Vec::new();
    // Another that ended with it, or shortly before, would have held up nearly as much.
    while saves < Usec(took.0 / 2) && beside.len() < BESIDE {
        let Some(next) = order.longest_on_the_way(&cuts).filter(|next| order.nodes[*next].ran >= WORTH) else { break };
        let name = order.nodes[next].name;
        // One of the way itself is a finding of its own.
        if hops.iter().any(|hop| hop.unit.as_str() == name) {
            break;
        }
        cuts.push(Cut::Time(next));
        beside.push(UnitName::from(name));
        saves = order.saves(&cuts);
    }
    Some(words::slow(hop, took, saves, beside))
}

fn waited(boot: &Boot, order: &Order<'_>, hop: &Hop) -> Option<Finding> {
    let is_start = hop.wait == Wait::NotRecorded(Fact::UnitsLoaded) && hop.waited < START;
    if hop.wait == Wait::Queue || is_start {
        return None;
    }
    let saves = order.saves(&[Cut::Wait(order.place(hop.unit.as_str())?)]);
    Some(words::waited(boot, hop, saves))
}

/// An order behind a target that waits for everything. Where that is all that is recorded of the unit's order, as in a pasted chain, it is not
/// known what would have been the next.
fn late(boot: &Boot, order: &Order<'_>, hops: &[Hop]) -> Option<Finding> {
    let (hop, target) = hops.windows(2).find_map(|pair| {
        let target = pair[1].unit.as_str();
        (LAST.contains(&target) && !LAST.contains(&pair[0].unit.as_str())).then_some((&pair[0], target))
    })?;
    let unit = boot.unit(hop.unit.as_str())?;
    if waited_for(boot, unit).count() < 2 {
        return None;
    }
    let edge = Cut::Edge(order.place(hop.unit.as_str())?, order.place(target)?);
    Some(words::late(hop, target, order.saves(&[edge])))
}

const AGENTS: [&str; 2] = ["walinuxagent.service", "waagent.service"];

/// The agent takes no time by itself, and is late by what it waits for: cloud-init's first stages.
fn agent(boot: &Boot, hops: &[Hop]) -> Option<Finding> {
    let quick = |hop: &Hop| hop.ran.is_none_or(|ran| ran < WORTH);
    let hop = hops.iter().find(|hop| AGENTS.contains(&hop.unit.as_str()) && quick(hop))?;
    let stages = hops.iter().filter(|other| {
        other.began < hop.began && other.unit.as_str().starts_with("cloud-init") && !super::is_pause(other)
    });
    let waited: Usec = stages.filter_map(|stage| stage.ran).sum();
    let active = match boot.unit(hop.unit.as_str())?.released() {
        Released::At(at) => at - boot.userspace(),
        Released::NotYet | Released::NotRecorded => hop.began,
    };
    Some(words::agent(hop, active, waited))
}
