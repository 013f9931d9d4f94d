//! How a run ended.

use std::fmt;

use kiln_prototype::decide::Stuck;
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunId;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{NodeName, PoolName};

/// The result of a run on one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    pub pool: PoolName,
    pub node: NodeName,
    /// Absent if the run was refused.
    pub run: Option<RunId>,
    pub end: RunEnd,
    /// Remarks that did not keep the run from continuing.
    pub notes: Vec<String>,
}

/// How a run ended: with an outcome in its journal, before it had one, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    Closed(Outcome),
    /// Blockers prevented the run. Nothing was changed.
    Refused(Vec<String>),
    /// The run is open and cannot continue until a person acts.
    Stuck(Stuck),
    /// The run is open because a stop was requested.
    Stopped {
        /// The next step.
        step: Step,
        /// Last acquired first.
        holds: Vec<Hold>,
    },
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(outcome) => outcome.fmt(f),
            Self::Refused(blockers) => write!(f, "refused, nothing was changed: {}", blockers.join("; ")),
            Self::Stuck(Stuck { holds, step, reason, advice }) => {
                write!(f, "stuck at {step}: {reason}; still holding {}; {advice}", list(holds))
            }
            Self::Stopped { step, holds } => {
                write!(
                    f,
                    "stopped before {step}, the run is open and holds {}; continue with `kiln prototype resume`",
                    list(holds)
                )
            }
        }
    }
}

/// The holds of a run, for people.
pub(crate) fn list(holds: &[Hold]) -> String {
    if holds.is_empty() {
        return "nothing".to_owned();
    }
    holds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
