//! What became of an operation on a pool.

use std::fmt;

use kiln_kubernetes::NodeName;
use kiln_prototype::decide::Stuck;
use kiln_prototype::journal::{Outcome, StepFailure};
use kiln_prototype::run::RunId;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{PoolName, VersionNumber};

/// What became of an operation on a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub pool: PoolName,
    pub node: NodeName,
    /// The run; none when it must not begin.
    pub run: Option<RunId>,
    /// How it ended.
    pub ending: RunEnd,
    /// What did not keep the run from going on and somebody should know.
    pub notes: Vec<String>,
}

/// How an operation ended: as its journal says ([`Outcome`]), or before there was one, or not yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// New nodes are made from this version.
    Completed { version: VersionNumber },
    /// Everything is given back. New nodes are made as before, or from the new version where the step comes after `include`.
    Failed { step: Step, failure: StepFailure },
    /// The canary did not join. The version stays excluded, and the line names it as bad.
    Rejected { version: VersionNumber, reason: String },
    /// It must not begin. Nothing was touched.
    Refused(Vec<String>),
    /// A person has to help, then the run is resumed.
    Stuck(Stuck),
    /// It was told to stop, and the run is open.
    Stopped {
        /// The step that would have come next.
        at: Step,
        /// What it holds, the last taken first.
        held: Vec<Hold>,
    },
}

impl From<Outcome> for RunEnd {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed { version } => Self::Completed { version },
            Outcome::Failed { step, failure } => Self::Failed { step, failure },
            Outcome::Rejected { version, reason } => Self::Rejected { version, reason },
        }
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { version } => write!(f, "done: new nodes are made from version {version}"),
            Self::Failed { step, failure } => {
                write!(f, "failed at {step}, and everything is given back: {failure}")
            }
            Self::Rejected { version, reason } => {
                write!(f, "version {version} is bad and nobody gets it: {reason}")
            }
            Self::Refused(reasons) => write!(f, "refused, nothing was touched: {}", reasons.join("; ")),
            Self::Stuck(stuck) => {
                let held = list(&stuck.held);
                write!(f, "stuck at {}: {}; still held: {held}; what to do: {}", stuck.step, stuck.reason, stuck.advice)
            }
            Self::Stopped { at, held } => {
                write!(
                    f,
                    "stopped before {at}, the run is open and holds: {}; `kiln prototype resume` goes on",
                    list(held)
                )
            }
        }
    }
}

fn list(held: &[Hold]) -> String {
    if held.is_empty() {
        return "nothing".to_owned();
    }
    held.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
