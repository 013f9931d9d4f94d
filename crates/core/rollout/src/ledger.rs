//! The ledger of unavailable nodes: which places of the budgets are taken.
//!
//! A node takes a place in every budget while it is unavailable, for whatever reason, or held. A node in flight that is still available takes a place in the
//! budgets of its effect, because it can become unavailable at any moment. A node that waits for the operator's consent takes none: the operator decides when
//! it does. It only limits how many further nodes with such effects are assigned.

use std::collections::HashMap;

use kiln_fleet_api::{Budget, Domains, Effect};

use crate::observed::NodeObserved;
use crate::turn::Turn;

/// How a node counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    None,
    /// In every budget.
    All,
    /// In the budgets of its effect.
    Effect,
    /// Not yet; in the budgets of its effect for further assignments.
    Asking,
}

/// The entry of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) load: Load,
    /// In flight in this rollout.
    pub(crate) ours: bool,
    /// In flight, but undisturbed until the operator consents.
    pub(crate) asks: bool,
    pub(crate) effect: Option<Effect>,
}

/// All budgets with their counts.
pub(crate) struct Ledger<'a> {
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    budget: &'a Budget,
    domains: HashMap<&'a str, Count>,
    /// Sum of the domains.
    all: Count,
}

#[derive(Clone, Copy, Default)]
struct Count {
    size: usize,
    taken: usize,
    asking: usize,
    ours: usize,
    ours_asking: usize,
}

/// A budget without a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) limit: usize,
    pub(crate) domain: &'a str,
    /// Nodes in flight in another domain are the reason.
    pub(crate) is_other_domain: bool,
}

/// Whether a budget is about an effect. An unknown effect can be any that needs no consent: for the others the node asks again.
fn concerns(budget: &Budget, effect: Option<Effect>) -> bool {
    budget.effects.is_empty()
        || effect.map_or_else(
            || budget.effects.iter().any(|effect| *effect < Effect::Drain),
            |effect| budget.effects.contains(&effect),
        )
}

pub(crate) fn domain<'a>(budget: &Budget, node: &'a NodeObserved) -> &'a str {
    budget.topology_key.as_ref().and_then(|key| node.labels.get(key)).map_or("", String::as_str)
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(budgets: &'a [Budget], turns: &[Turn<'a>]) -> Self {
        let rows = budgets.iter().map(|budget| Row { budget, domains: HashMap::new(), all: Count::default() });
        let mut ledger = Self { rows: rows.collect() };
        for turn in turns {
            for row in &mut ledger.rows {
                row.domains.entry(domain(row.budget, turn.node)).or_default().size += 1;
            }
            ledger.enter(turn.node, turn.entry());
        }
        ledger
    }

    pub(crate) fn enter(&mut self, node: &'a NodeObserved, entry: Entry) {
        self.change(node, entry, |count, by| *count += by);
    }

    pub(crate) fn remove(&mut self, node: &'a NodeObserved, entry: Entry) {
        self.change(node, entry, |count, by| *count = count.saturating_sub(by));
    }

    fn change(&mut self, node: &'a NodeObserved, entry: Entry, apply: impl Fn(&mut usize, usize)) {
        for row in &mut self.rows {
            let is_concerned = concerns(row.budget, entry.effect);
            let here = row.domains.entry(domain(row.budget, node)).or_default();
            for count in [here, &mut row.all] {
                let takes = entry.load == Load::All || entry.load == Load::Effect && is_concerned;
                apply(&mut count.taken, usize::from(takes));
                apply(&mut count.asking, usize::from(entry.load == Load::Asking && is_concerned));
                apply(&mut count.ours, usize::from(entry.ours && !entry.asks && is_concerned));
                apply(&mut count.ours_asking, usize::from(entry.ours && entry.asks && is_concerned));
            }
        }
    }

    /// Checks that every budget has a place for a node that is not entered. With `after_asking`, nodes that wait for consent come first.
    pub(crate) fn check(
        &self,
        node: &'a NodeObserved,
        effect: Option<Effect>,
        after_asking: bool,
    ) -> Result<(), Full<'a>> {
        for row in self.rows.iter().filter(|row| concerns(row.budget, effect)) {
            let name = domain(row.budget, node);
            let here = row.domains.get(name).copied().unwrap_or_default();
            let limit = row.budget.max_unavailable.of(here.size);
            let asking = |count: usize| if after_asking { count } else { 0 };
            let is_full = here.taken + asking(here.asking) + 1 > limit;
            let elsewhere = row.all.ours - here.ours + asking(row.all.ours_asking - here.ours_asking);
            let is_other_domain = row.budget.domains == Domains::OneAtATime && elsewhere > 0;
            if is_full || is_other_domain {
                return Err(Full { budget: row.budget, limit, domain: name, is_other_domain: !is_full });
            }
        }
        Ok(())
    }
}
