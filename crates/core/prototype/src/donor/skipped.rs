//! Pools that automatic runs skip night after night. A skipped night is normal (no node was patched since the last version); a pool that is
//! skipped for days, is paused, or is blocked by a rejection needs a person, and a CronJob that succeeds would hide it.

use std::fmt;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{Choice, IneligibleReason, NoDonor};

/// How often a pool was skipped in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkipRecord {
    pub nights: u32,
    pub since: Date,
    pub last: Date,
}

impl SkipRecord {
    /// The record after another skipped night. Several attempts on one day count once.
    #[must_use]
    pub fn after(previous: Option<Self>, today: Date) -> Self {
        match previous {
            Some(record) if record.last == today => record,
            Some(record) => Self { nights: record.nights.saturating_add(1), last: today, ..record },
            None => Self { nights: 1, since: today, last: today },
        }
    }
}

/// Why a skipped pool needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SkipProblem {
    Paused,
    /// Nodes are patched, but only with the changes of a rejected version.
    RejectedPatch,
    TooManyNights,
}

impl SkipProblem {
    /// The problem of a pool that was skipped, if there is one.
    pub fn find(choice: Option<&Choice>, record: &SkipRecord, max_nights: u32) -> Option<Self> {
        let rejected = |reason: &IneligibleReason| {
            matches!(reason, IneligibleReason::RejectedAncestor(_) | IneligibleReason::SamePatch(_))
        };
        match choice {
            Some(Choice { donor: Err(NoDonor::Paused(_)), .. }) => Some(Self::Paused),
            Some(choice)
                if choice.donor.is_err()
                    && choice.rows.iter().any(|row| !row.reasons.is_empty() && row.reasons.iter().all(rejected)) =>
            {
                Some(Self::RejectedPatch)
            }
            _ => (record.nights >= max_nights).then_some(Self::TooManyNights),
        }
    }

    /// The label value of a metric.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::RejectedPatch => "rejected",
            Self::TooManyNights => "skipped",
        }
    }
}

impl fmt::Display for SkipProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paused => "the pool is paused",
            Self::RejectedPatch => "its patched nodes have only the changes of a rejected version",
            Self::TooManyNights => "no donor was found for several nights",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: i8) -> Date {
        jiff::civil::date(2026, 11, day)
    }

    #[test]
    fn nights_are_counted_once_per_day() {
        let first = SkipRecord::after(None, day(1));
        assert_eq!(first, SkipRecord { nights: 1, since: day(1), last: day(1) });
        let again = SkipRecord::after(Some(first), day(1));
        assert_eq!(again.nights, 1);
        let second = SkipRecord::after(Some(again), day(2));
        assert_eq!(second, SkipRecord { nights: 2, since: day(1), last: day(2) });
    }

    #[test]
    fn too_many_nights_are_a_problem_from_the_limit_on() {
        let record = |nights| SkipRecord { nights, since: day(1), last: day(9) };
        assert_eq!(SkipProblem::find(None, &record(6), 7), None);
        assert_eq!(SkipProblem::find(None, &record(7), 7), Some(SkipProblem::TooManyNights));
    }
}
