//! Who waited for whom on the way to one unit, reckoned once and then asked many times.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Boot, Released, Unit};
use crate::span::Usec;

/// A unit that another waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited<'a> {
    pub name: &'a str,
    pub unit: &'a Unit,
    /// When it let the other go on; where that is not recorded, when it began, which is the earliest that it can have been.
    pub ready: Usec,
    /// Whether `ready` is recorded.
    pub recorded: bool,
}

/// The units that a unit waited for: ordered before it, and ready when it began. Order alone does not make one wait for what comes later.
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

/// What is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A unit: nobody waits for it, and it takes no time.
    Unit(usize),
    /// The time of a unit.
    Time(usize),
    /// The time that a unit waited after all that it is ordered after was ready.
    Wait(usize),
    /// The first does not wait for the second.
    Edge(usize, usize),
}

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub name: &'a str,
    pub ran: Usec,
    began: Usec,
    /// Time that nothing of systemd's explains.
    slack: Usec,
    /// Who was waited for, and when it was ready. A unit of a loop whose turn comes later has none.
    waits: Vec<(usize, Usec)>,
}

/// The units that one unit waited for, through however many, each behind those that it waited for; the unit itself last.
#[derive(Debug)]
pub(crate) struct Order<'a> {
    pub nodes: Vec<Node<'a>>,
    places: BTreeMap<&'a str, usize>,
    /// When PID 1 could start the first unit; where that is not recorded, when it began itself.
    first: Usec,
}

impl<'a> Order<'a> {
    pub(crate) fn of(boot: &'a Boot, id: &'a str) -> Self {
        let mut order = Self { nodes: Vec::new(), places: BTreeMap::new(), first: boot.first() };
        let mut open: BTreeSet<&str> = BTreeSet::new();
        // A walk, not a recursion: a capture may be as deep as it is long.
        let mut stack = vec![id];
        while let Some(name) = stack.last().copied() {
            let Some(unit) = boot.unit(name).filter(|_| !order.places.contains_key(name)) else {
                stack.pop();
                continue;
            };
            if open.insert(name) {
                let first = waited_for(boot, unit).map(|waited| waited.name);
                stack.extend(first.filter(|before| !order.places.contains_key(before) && !open.contains(before)));
                continue;
            }
            stack.pop();
            order.places.insert(name, order.nodes.len());
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
            let place = self.places.get(waited.name).copied().filter(|place| *place < self.nodes.len());
            // One of a loop that has no place yet stays where it was.
            waits.push((place.unwrap_or(usize::MAX), waited.ready));
        }
        Node { name, ran: unit.took().unwrap_or_default(), began, slack: began - ready, waits }
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// When each would have started.
    pub(crate) fn starts(&self, cuts: &[Cut]) -> Vec<Usec> {
        let mut would: Vec<Usec> = Vec::with_capacity(self.nodes.len());
        for (place, node) in self.nodes.iter().enumerate() {
            let earliest = self.first.min(node.began);
            let ready = self.moved(place, cuts, &would).map(|(_, ready)| ready).max().unwrap_or_default();
            let slack = if cuts.contains(&Cut::Wait(place)) { Usec::ZERO } else { node.slack };
            would.push(ready.max(earliest) + slack);
        }
        would
    }

    /// When those that a unit still waits for would have been ready.
    fn moved<'s>(
        &'s self,
        place: usize,
        cuts: &'s [Cut],
        would: &'s [Usec],
    ) -> impl Iterator<Item = (usize, Usec)> + 's {
        let cut = move |before: usize| cuts.contains(&Cut::Unit(before)) || cuts.contains(&Cut::Edge(place, before));
        self.nodes[place].waits.iter().filter(move |(before, _)| !cut(*before)).map(move |(before, was)| {
            let Some(start) = would.get(*before) else { return (*before, *was) };
            let ran = if cuts.contains(&Cut::Time(*before)) { Usec::ZERO } else { self.nodes[*before].ran };
            (*before, *start + ran)
        })
    }

    /// How much earlier the unit itself would have started.
    pub(crate) fn saves(&self, cuts: &[Cut]) -> Usec {
        let last = self.nodes.len() - 1;
        self.nodes[last].began - self.starts(cuts)[last]
    }

    /// Of the units that would then be the last of their kind on the way, the one that runs longest.
    pub(crate) fn longest_on_the_way(&self, cuts: &[Cut]) -> Option<usize> {
        let would = self.starts(cuts);
        let mut place = self.nodes.len() - 1;
        let mut longest = None;
        loop {
            let next = self.moved(place, cuts, &would[..place]).max_by_key(|(before, ready)| (*ready, *before));
            let Some((before, _)) = next.filter(|(before, _)| *before < place) else { return longest };
            place = before;
            let runs = |place: usize| self.nodes[place].ran;
            if !cuts.contains(&Cut::Time(place)) && longest.is_none_or(|longest| runs(place) > runs(longest)) {
                longest = Some(place);
            }
        }
    }
}
