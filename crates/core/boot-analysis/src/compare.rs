//! Comparison of two boots.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::explain::{Explanation, Hop};
use crate::model::UnitName;
use crate::span::Usec;

/// A unit on the chain of either boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub unit: UnitName,
    pub first: Option<Hop>,
    pub second: Option<Hop>,
    /// Microseconds (run and wait) that the second boot spends more in this unit.
    pub change: i64,
}

/// The chains to the same unit in two boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    pub unit: UnitName,
    /// Start of the unit in the first boot, without a preprovisioning pause.
    pub first: Usec,
    pub second: Usec,
    /// Units of both chains, largest change first.
    pub rows: Vec<Row>,
}

/// Compares the chains to the same unit.
pub fn compare(first: &Explanation, second: &Explanation) -> Comparison {
    let hop = |explained: &Explanation, unit: &UnitName| explained.hops.iter().find(|hop| hop.unit == *unit).cloned();
    let units: BTreeSet<&UnitName> = first.hops.iter().chain(&second.hops).map(|hop| &hop.unit).collect();
    let spent = |hop: &Option<Hop>| hop.as_ref().map_or(0, |hop| i64::try_from(hop.spent().0).unwrap_or(i64::MAX));
    let mut rows: Vec<Row> = units
        .into_iter()
        .map(|unit| {
            let (first, second) = (hop(first, unit), hop(second, unit));
            let change = spent(&second).saturating_sub(spent(&first));
            Row { unit: unit.clone(), first, second, change }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.change.unsigned_abs()));
    let began = |explained: &Explanation| explained.began - explained.preprovisioning;
    Comparison { unit: second.unit.clone(), first: began(first), second: began(second), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::what_if::tests::boot;

    #[test]
    fn rows_are_sorted_by_the_size_of_the_change() {
        let slow = boot("a.service 100 400\nwait.service 500 5000 a.service\nkubelet.service 5500 10 wait.service");
        let fast = boot("a.service 100 450\nkubelet.service 550 10 a.service");
        let explained = |boot| explain(boot, "kubelet.service").unwrap();
        let compared = compare(&explained(&slow), &explained(&fast));
        assert_eq!((compared.first, compared.second), (Usec(5_500_000), Usec(550_000)));
        assert_eq!((compared.rows[0].unit.as_str(), compared.rows[0].change), ("wait.service", -5_000_000));
        assert_eq!((compared.rows[1].unit.as_str(), compared.rows[1].change), ("a.service", 50_000));
    }
}
