//! The plan as text.

use std::fmt;

use kiln_types::{FREEZE_WINDOW, JoinMode};

use super::durations::{DurationSource, ExpectedDuration};
use super::{Plan, PlannedConsent, PlannedStep};
use crate::span::format_span;

impl fmt::Display for ExpectedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takes = self.takes.map_or_else(|| "unknown".to_owned(), format_span);
        match self.source {
            DurationSource::Measured(1) => write!(f, "{takes}, as in the previous run"),
            DurationSource::Measured(runs) => write!(f, "{takes}, as in {runs} earlier runs"),
            DurationSource::Published => write!(f, "{takes}, as kamino measured"),
            DurationSource::Request => write!(f, "{takes}"),
            DurationSource::Open => write!(f, "until the pods have terminated"),
        }
    }
}

impl PlannedStep {
    /// The headings of [`cells`](Self::cells).
    pub const HEADINGS: [&'static str; 3] = ["step", "action", "expected"];

    /// The cells of a table.
    pub fn cells(&self) -> [String; 3] {
        [self.step.to_string(), self.does.clone(), self.expected.to_string()]
    }
}

fn describe_join(join: JoinMode) -> &'static str {
    match join {
        JoinMode::Certificate => "certificate, with what is in the image",
        JoinMode::Recipe => "recipe, which keeps its custom data and scripts: every clone runs them",
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool: {}", self.pool)?;
        writeln!(f, "donor: {}", self.donor)?;
        writeln!(f, "new nodes now: {}", self.now)?;
        writeln!(f, "new version: {}", self.version)?;
        if let Some(join) = self.join {
            writeln!(f, "clones join: {}", describe_join(join))?;
        }
        for step in &self.steps {
            writeln!(f, "{:<15} {} ({})", step.step, step.does, step.expected)?;
        }
        if self.live {
            writeln!(f, "total: about {}", format_span(self.total))?;
            writeln!(
                f,
                "donor away: not at all; writes to its disk wait for {} s at most (--live)",
                FREEZE_WINDOW.as_secs()
            )?;
            writeln!(
                f,
                "live: clones start as after a power cut, with the data of the donor's running pods on the disk until their first boot"
            )?;
        } else if self.away.as_secs() > 0 {
            writeln!(f, "total: about {}, not counting the drain", format_span(self.total))?;
            writeln!(f, "donor away: about {}, from power off until Ready", format_span(self.away))?;
            writeln!(
                f,
                "with `--live` the donor would be neither drained nor stopped: its file systems would be frozen for {} s at most, and \
                 clones would start as after a power cut",
                FREEZE_WINDOW.as_secs()
            )?;
        } else {
            writeln!(f, "total: about {}", format_span(self.total))?;
            writeln!(f, "donor away: not at all, its snapshot exists already")?;
        }
        for secret in &self.secrets {
            writeln!(f, "on the disk: {secret}")?;
        }
        if let Some(cost) = &self.cost {
            writeln!(f, "{cost}")?;
        }
        for PlannedConsent { flag, given, waives } in &self.consents {
            let state = if *given { "given: waives" } else { "not given: would waive" };
            writeln!(f, "consent {flag}: {state} {waives}")?;
        }
        write!(f, "{}", self.preflight)?;
        if self.preflight.is_clear() { writeln!(f, "blockers: none") } else { Ok(()) }
    }
}
