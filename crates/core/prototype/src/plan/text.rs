//! A plan as people read it.

use std::fmt;

use super::durations::{Source, Usual};
use super::{Plan, Planned};
use crate::ready_time::spoken;

impl fmt::Display for Usual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes = self.takes.map_or_else(|| "open".to_owned(), spoken);
        match self.source {
            Source::Measured(1) => write!(f, "{takes}, as in the run before"),
            Source::Measured(runs) => write!(f, "{takes}, as in {runs} runs before"),
            Source::Published => write!(f, "{takes}, as published by kamino"),
            Source::Request => write!(f, "{takes}"),
            Source::Open => write!(f, "as long as pods take to leave"),
        }
    }
}

impl Planned {
    /// What stands over the cells.
    pub const HEADINGS: [&'static str; 3] = ["step", "does", "usually takes"];

    /// The row for a table.
    pub fn cells(&self) -> [String; 3] {
        [self.step.to_string(), self.does.clone(), self.usual.to_string()]
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool: {}", self.pool)?;
        writeln!(f, "donor: {}", self.donor)?;
        writeln!(f, "new nodes now: {}", self.now)?;
        writeln!(f, "new version: {}", self.version)?;
        for step in &self.steps {
            writeln!(f, "{:<13} {} ({})", step.step, step.does, step.usual)?;
        }
        writeln!(f, "in all: usually {}, the drain not counted", spoken(self.total))?;
        if self.away.as_secs() > 0 {
            writeln!(f, "donor away: usually {}, from power off until Ready", spoken(self.away))?;
        } else {
            writeln!(f, "donor away: not at all, its disk was copied before")?;
        }
        for secret in &self.cloned {
            writeln!(f, "on the disk: {secret}")?;
        }
        if let Some(cost) = &self.cost {
            writeln!(f, "{cost}")?;
        }
        write!(f, "{}", self.verdict)?;
        if self.verdict.allows() { writeln!(f, "nothing speaks against it") } else { Ok(()) }
    }
}
