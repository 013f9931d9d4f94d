//! Findings: what would have saved time on the chain to a unit, and how much.

mod message;

use serde::Serialize;

use super::{Fact, Hop, MANAGER, Wait};
use crate::model::{Boot, Released, UnitName};
use crate::order::{Cut, Order, waited_for};
use crate::span::Usec;

/// Smaller savings are not reported.
const MIN_SAVING: Usec = Usec(500_000);

/// How many of the longest hops are evaluated. Each one costs a pass over the whole order, so without a limit a made-up capture of 100,000
/// slow units would take hours.
const MAX_HOPS: usize = 24;

/// How many equally slow units that ran in parallel are named in one finding. If there are more, the whole machine is slow.
const MAX_PARALLEL: usize = 3;

/// PID 1 needs some time before it starts the first unit, which old captures do not record. On an emulated machine it took 4.2 s, so a wait
/// shorter than this is not reported.
const PID_1_START: Usec = Usec(5_000_000);

/// Targets that are ordered after every enabled unit.
const FINAL_TARGETS: [&str; 2] = ["multi-user.target", "graphical.target"];

/// One thing that would have saved time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub kind: FindingKind,
    pub unit: UnitName,
    /// Slow units that ran in parallel. The time is saved only if they become faster too.
    pub parallel: Vec<UnitName>,
    /// How much earlier the explained unit would have started. For its own run time, how much earlier it would have been active.
    pub saves: Usec,
    pub message: String,
    pub advice: String,
}

/// The kind of a finding. Of two findings with the same saving, the earlier kind is listed first because it is easier to fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// The VM was preprovisioned and waited to be assigned to a customer. Not part of the boot.
    Preprovisioning,
    /// A unit waits until the network is configured.
    WaitOnline,
    /// A stage of cloud-init is on the chain.
    CloudInit,
    /// Azure's VM agent is on the chain.
    Agent,
    /// A device appeared late.
    Device,
    /// The unit is ordered after a target that waits for everything.
    Order,
    /// PID 1 took long to run generators and load units.
    Manager,
    /// Something outside systemd started the unit.
    Outside,
    /// Any other slow unit.
    Slow,
    /// The capture lacks the fact that would explain the time.
    Unknown,
}

pub(super) fn collect(boot: &Boot, id: &str, hops: &[Hop]) -> Vec<Finding> {
    let order = Order::new(boot, id);
    let mut all: Vec<Finding> = Vec::new();
    for (index, hop) in longest(hops, |hop| hop.ran.unwrap_or_default()) {
        all.extend(if index == 0 { message::own(hop) } else { slow(&order, hops, hop) });
    }
    for (_, hop) in longest(hops, |hop| hop.waited) {
        all.extend(waited(boot, &order, hop));
    }
    all.extend(late(boot, &order, hops));
    all.retain(|finding| finding.saves >= MIN_SAVING);
    all.extend(agent(boot, hops));
    all.sort_by_key(|finding| (std::cmp::Reverse(finding.saves), finding.kind));
    all
}

/// The hops with the largest values, in the order of the chain.
fn longest(hops: &[Hop], measure: impl Fn(&Hop) -> Usec) -> Vec<(usize, &Hop)> {
    let mut all: Vec<(usize, &Hop)> = hops.iter().enumerate().filter(|(_, hop)| measure(hop) >= MIN_SAVING).collect();
    all.sort_by_key(|(_, hop)| std::cmp::Reverse(measure(hop)));
    all.truncate(MAX_HOPS);
    all.sort_by_key(|(index, _)| *index);
    all
}

fn slow(order: &Order<'_>, hops: &[Hop], hop: &Hop) -> Option<Finding> {
    if hop.unit.as_str() == MANAGER {
        return Some(message::manager(hop));
    }
    let took = hop.ran?;
    let mut cuts = vec![Cut::Time(order.index(hop.unit.as_str())?)];
    let mut saves = order.saves(&cuts);
    let mut parallel = Vec::new();
    // A unit that ended at the same time or shortly before would have delayed the start nearly as much.
    while saves < Usec(took.0 / 2) && parallel.len() < MAX_PARALLEL {
        let Some(next) = order.longest_on_chain(&cuts).filter(|next| order.nodes[*next].ran >= MIN_SAVING) else {
            break;
        };
        let name = order.nodes[next].name;
        // A unit on the chain has a separate finding.
        if hops.iter().any(|hop| hop.unit.as_str() == name) {
            break;
        }
        cuts.push(Cut::Time(next));
        parallel.push(UnitName::from(name));
        saves = order.saves(&cuts);
    }
    Some(message::slow(hop, took, saves, parallel))
}

fn waited(boot: &Boot, order: &Order<'_>, hop: &Hop) -> Option<Finding> {
    let is_start = hop.wait == Wait::NotRecorded(Fact::UnitsLoaded) && hop.waited < PID_1_START;
    if hop.wait == Wait::Queue || is_start {
        return None;
    }
    let saves = order.saves(&[Cut::Wait(order.index(hop.unit.as_str())?)]);
    Some(message::waited(boot, hop, saves))
}

/// An ordering after a target that waits for everything. If nothing else is recorded of the unit's ordering, as in a pasted chain, the saving
/// is unknown and there is no finding.
fn late(boot: &Boot, order: &Order<'_>, hops: &[Hop]) -> Option<Finding> {
    let (hop, target) = hops.windows(2).find_map(|pair| {
        let target = pair[1].unit.as_str();
        (FINAL_TARGETS.contains(&target) && !FINAL_TARGETS.contains(&pair[0].unit.as_str()))
            .then_some((&pair[0], target))
    })?;
    let unit = boot.unit(hop.unit.as_str())?;
    if waited_for(boot, unit).count() < 2 {
        return None;
    }
    let edge = Cut::Edge(order.index(hop.unit.as_str())?, order.index(target)?);
    Some(message::late(hop, target, order.saves(&[edge])))
}

const AGENTS: [&str; 2] = ["walinuxagent.service", "waagent.service"];

/// The agent itself starts quickly, but only after the first stages of cloud-init.
fn agent(boot: &Boot, hops: &[Hop]) -> Option<Finding> {
    let quick = |hop: &Hop| hop.ran.is_none_or(|ran| ran < MIN_SAVING);
    let hop = hops.iter().find(|hop| AGENTS.contains(&hop.unit.as_str()) && quick(hop))?;
    let stages = hops.iter().filter(|other| {
        other.began < hop.began && other.unit.as_str().starts_with("cloud-init") && !super::is_pause(other)
    });
    let waited: Usec = stages.filter_map(|stage| stage.ran).sum();
    let active = match boot.unit(hop.unit.as_str())?.released() {
        Released::At(at) => at - boot.userspace(),
        Released::NotYet | Released::NotRecorded => hop.began,
    };
    Some(message::agent(hop, active, waited))
}
