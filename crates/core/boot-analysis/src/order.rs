//! The units that one unit waited for, computed once so that many changes can be evaluated against it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Boot, Released, Unit};
use crate::span::Usec;

/// A unit that another unit waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited<'a> {
    pub name: &'a str,
    pub unit: &'a Unit,
    /// When units ordered after it could start. If that is not recorded, its own start, which is a lower bound.
    pub ready: Usec,
    /// Whether `ready` is recorded.
    pub recorded: bool,
}

/// The units that a unit waited for: those in its `After=` that were ready before it started. A unit in `After=` that was queued later was not
/// waited for.
pub(crate) fn waited_for<'a>(boot: &'a Boot, unit: &'a Unit) -> impl Iterator<Item = Waited<'a>> {
    let began = unit.began().unwrap_or_default();
    unit.after.iter().filter_map(move |name| {
        let name = boot.id(name.as_str());
        let other = boot.unit(name)?;
        let (ready, recorded) = match other.released() {
            Released::At(ready) => (ready, true),
            Released::NotRecorded => (other.began()?, false),
            Released::NotYet => return None,
        };
        (other.began()? <= began && ready <= began).then_some(Waited { name, unit: other, ready, recorded })
    })
}

/// A change to the boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Remove a unit: no unit waits for it, and it takes no time.
    Unit(usize),
    /// Reduce the run time of a unit to zero.
    Time(usize),
    /// Remove the time that a unit waited after everything in its `After=` was ready.
    Wait(usize),
    /// The first unit no longer waits for the second.
    Edge(usize, usize),
}

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub name: &'a str,
    pub ran: Usec,
    began: Usec,
    /// Time between the moment the unit could have started and its start.
    slack: Usec,
    /// Indices of the units that it waited for, and when each was ready. In an ordering cycle the index can be `usize::MAX`.
    waits: Vec<(usize, Usec)>,
}

/// The units that one unit waited for, directly or indirectly, in topological order; the unit itself is last.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub nodes: Vec<Node<'a>>,
    indices: BTreeMap<&'a str, usize>,
    /// When PID 1 could start the first unit; if that is not recorded, when PID 1 started.
    first: Usec,
}

impl<'a> Order<'a> {
    pub(crate) fn new(boot: &'a Boot, id: &'a str) -> Self {
        let mut order = Self { nodes: Vec::new(), indices: BTreeMap::new(), first: boot.first() };
        let mut open: BTreeSet<&str> = BTreeSet::new();
        // An explicit stack: a recursion could overflow on a capture of 100,000 units in a row.
        let mut stack = vec![id];
        while let Some(name) = stack.last().copied() {
            let Some(unit) = boot.unit(name).filter(|_| !order.indices.contains_key(name)) else {
                stack.pop();
                continue;
            };
            if open.insert(name) {
                let first = waited_for(boot, unit).map(|waited| waited.name);
                stack.extend(first.filter(|before| !order.indices.contains_key(before) && !open.contains(before)));
                continue;
            }
            stack.pop();
            order.indices.insert(name, order.nodes.len());
            let node = order.node(boot, name, unit);
            order.nodes.push(node);
        }
        order
    }

    fn node(&self, boot: &'a Boot, name: &'a str, unit: &'a Unit) -> Node<'a> {
        let began = unit.began().unwrap_or_default();
        let mut ready = self.first.min(began);
        let mut waits = Vec::new();
        for waited in waited_for(boot, unit) {
            ready = ready.max(waited.ready);
            let index = self.indices.get(waited.name).copied().filter(|index| *index < self.nodes.len());
            // In a cycle, a unit that has no index yet keeps its recorded time.
            waits.push((index.unwrap_or(usize::MAX), waited.ready));
        }
        Node { name, ran: unit.took().unwrap_or_default(), began, slack: began - ready, waits }
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.indices.get(name).copied()
    }

    /// The start of each unit after the changes.
    pub(crate) fn starts(&self, cuts: &[Cut]) -> Vec<Usec> {
        let mut would: Vec<Usec> = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let earliest = self.first.min(node.began);
            let ready = self.moved(index, cuts, &would).map(|(_, ready)| ready).max().unwrap_or_default();
            let slack = if cuts.contains(&Cut::Wait(index)) { Usec::ZERO } else { node.slack };
            would.push(ready.max(earliest) + slack);
        }
        would
    }

    /// The units that a unit still waits for, and when each would have been ready.
    fn moved<'s>(
        &'s self,
        index: usize,
        cuts: &'s [Cut],
        would: &'s [Usec],
    ) -> impl Iterator<Item = (usize, Usec)> + 's {
        let cut = move |before: usize| cuts.contains(&Cut::Unit(before)) || cuts.contains(&Cut::Edge(index, before));
        self.nodes[index].waits.iter().filter(move |(before, _)| !cut(*before)).map(move |(before, was)| {
            let Some(start) = would.get(*before) else { return (*before, *was) };
            let ran = if cuts.contains(&Cut::Time(*before)) { Usec::ZERO } else { self.nodes[*before].ran };
            (*before, *start + ran)
        })
    }

    /// How much earlier the last unit would have started.
    pub(crate) fn saves(&self, cuts: &[Cut]) -> Usec {
        let last = self.nodes.len() - 1;
        self.nodes[last].began - self.starts(cuts)[last]
    }

    /// The unit with the longest run time on the critical chain after the changes.
    pub(crate) fn longest_on_chain(&self, cuts: &[Cut]) -> Option<usize> {
        let would = self.starts(cuts);
        let mut index = self.nodes.len() - 1;
        let mut longest = None;
        loop {
            let next = self.moved(index, cuts, &would[..index]).max_by_key(|(before, ready)| (*ready, *before));
            let Some((before, _)) = next.filter(|(before, _)| *before < index) else { return longest };
            index = before;
            let runs = |index: usize| self.nodes[index].ran;
            if !cuts.contains(&Cut::Time(index)) && longest.is_none_or(|longest| runs(index) > runs(longest)) {
                longest = Some(index);
            }
        }
    }
}
