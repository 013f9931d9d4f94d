//! Jobs: starting, stopping, and what became of it. The result of a job alone does not say whether a unit runs.

use std::io;
use std::time::Duration;

use zbus::OwnedObjectPath;

use super::{Systemd, UNIT, UnitState, gone};
use crate::os::{Error, clock};

/// What became of a unit that was to start, restart or reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It runs, or has run to its end.
    Started,
    /// A condition of it does not hold: it does not run. A restart has stopped it before it found that out.
    Skipped,
    /// It does not run.
    Failed {
        /// Why: the job's result, or the service's.
        result: String,
    },
}

impl JobOutcome {
    /// Whether it runs, or has run to its end.
    pub fn is_started(&self) -> bool {
        *self == Self::Started
    }
}

impl Systemd {
    /// Starts a unit and waits. From a unit of the boot itself this may wait for ever, since the other may be ordered after it: there
    /// [`Self::start_no_wait`] is the one to use.
    pub fn start(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.forgive(unit)?;
        self.job("StartUnit", unit)
    }

    /// Restarts a unit and waits.
    pub fn restart(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.forgive(unit)?;
        self.job("RestartUnit", unit)
    }

    /// Lets a unit read its configuration again, or restarts one that cannot, if it runs; waits.
    pub fn reload(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.job("ReloadOrTryRestartUnit", unit)
    }

    /// Restarts a unit if it runs, and waits.
    pub fn restart_if_running(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.forgive(unit)?;
        self.job("TryRestartUnit", unit)
    }

    /// Stops a unit and waits.
    pub fn stop(&mut self, unit: &str) -> Result<UnitState, Error> {
        self.run_job("StopUnit", unit)?;
        self.unit(unit)
    }

    /// Asks for a start and does not wait.
    pub fn start_no_wait(&mut self, unit: &str) -> Result<(), Error> {
        self.forgive(unit)?;
        self.ask("StartUnit", unit, &(unit, "replace")).map(drop)
    }

    /// Whether a job for it waits for its turn, or is under way.
    pub fn is_due(&mut self, unit: &str) -> Result<bool, Error> {
        Ok(self.unit_property_pair(unit)?.0 != 0)
    }

    /// Whether it runs, or is about to.
    pub fn is_up(&mut self, unit: &str) -> Result<bool, Error> {
        let state: String = self.unit_property(unit, UNIT, "ActiveState")?;
        Ok(matches!(state.as_str(), "active" | "activating" | "reloading" | "refreshing"))
    }

    /// Asks for a restart and does not wait.
    pub fn restart_no_wait(&mut self, unit: &str) -> Result<(), Error> {
        self.forgive(unit)?;
        self.ask("RestartUnit", unit, &(unit, "replace")).map(drop)
    }

    /// Forgets failures and starts so far: five starts within ten seconds are otherwise the last, and ours count among them.
    pub fn forgive(&mut self, unit: &str) -> Result<(), Error> {
        match self.ask("ResetFailedUnit", unit, &(unit,)) {
            // What is not loaded has nothing to be forgiven.
            Err(error) if !error.is_no_such_unit() => Err(error),
            _ => Ok(()),
        }
    }

    fn job(&mut self, member: &str, unit: &str) -> Result<JobOutcome, Error> {
        let result = self.run_job(member, unit)?;
        Ok(outcome(&result, &self.unit(unit)?))
    }

    /// Runs a job and says how it ended; `done` when it ended while nobody listened.
    fn run_job(&mut self, member: &str, unit: &str) -> Result<String, Error> {
        let deadline = clock::boot_time() + self.patience;
        // Before the job, or its end may be missed.
        self.ask("Subscribe", unit, &())?;
        let job: OwnedObjectPath = self.manager(member, unit, &(unit, "replace"))?;
        let ended = self.end_of(&job, unit, deadline);
        if let Some(link) = &self.link {
            link.patience(self.patience).map_err(|source| self.unreachable(source))?;
        }
        ended?.ok_or_else(|| Error::JobTimeout {
            member: member.to_owned(),
            unit: unit.to_owned(),
            seconds: self.patience.as_secs(),
        })
    }

    /// How a job ended; none when it did not in time.
    fn end_of(&mut self, job: &OwnedObjectPath, unit: &str, deadline: Duration) -> Result<Option<String>, Error> {
        loop {
            let left = deadline.saturating_sub(clock::boot_time());
            if left.is_zero() {
                return Ok(None);
            }
            let link = self.link()?;
            let signal = link.patience(left).and_then(|()| link.signal());
            match signal {
                Ok(message) if message.member == "JobRemoved" => {
                    let body: (u32, OwnedObjectPath, String, String) =
                        message.get().map_err(|source| self.unreachable(source))?;
                    if body.1 == *job {
                        return Ok(Some(body.3));
                    }
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) if gone(&error) => {
                    self.link = None;
                    if !self.is_under_way(job, unit)? {
                        return Ok(Some("done".to_owned()));
                    }
                }
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// Whether a job is still to end, asked anew after the connection was lost. PID 1 keeps its jobs across `daemon-reexec`.
    fn is_under_way(&mut self, job: &OwnedObjectPath, unit: &str) -> Result<bool, Error> {
        self.ask("Subscribe", unit, &())?;
        let (_, now): (u32, OwnedObjectPath) = self.unit_property_pair(unit)?;
        Ok(now == *job)
    }

    fn unit_property_pair(&mut self, unit: &str) -> Result<(u32, OwnedObjectPath), Error> {
        let value: zbus::OwnedVariant = self.unit_property(unit, UNIT, "Job")?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "`Job` is of another type");
        <(u32, OwnedObjectPath)>::try_from(value).map_err(|_| self.unreachable(wrong()))
    }
}

fn outcome(result: &str, unit: &UnitState) -> JobOutcome {
    let failed = |result: &str| JobOutcome::Failed { result: result.to_owned() };
    match (result, unit.active.as_str()) {
        ("skipped", _) => JobOutcome::Skipped,
        ("done", "failed") => failed(&unit.result),
        // It ended at once and is tried again: a service that cannot stay.
        ("done", _) if unit.sub == "auto-restart" => failed(&unit.result),
        ("done", "inactive") if !unit.conditions => JobOutcome::Skipped,
        ("done", _) => JobOutcome::Started,
        ("failed", _) if !["", "success"].contains(&unit.result.as_str()) => failed(&unit.result),
        (other, _) => failed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(active: &str, sub: &str, conditions: bool, result: &str) -> UnitState {
        UnitState {
            load: "loaded".to_owned(),
            active: active.to_owned(),
            sub: sub.to_owned(),
            conditions,
            result: result.to_owned(),
            stale: false,
        }
    }

    #[test]
    fn a_job_that_is_done_has_not_always_started_a_unit() {
        assert_eq!(outcome("done", &unit("active", "running", true, "success")), JobOutcome::Started);
        assert_eq!(outcome("done", &unit("inactive", "dead", true, "success")), JobOutcome::Started, "a oneshot");
        assert_eq!(outcome("done", &unit("inactive", "dead", false, "success")), JobOutcome::Skipped);
        let failed = |result: &str| JobOutcome::Failed { result: result.to_owned() };
        assert_eq!(outcome("done", &unit("failed", "failed", true, "exit-code")), failed("exit-code"));
        assert_eq!(outcome("done", &unit("activating", "auto-restart", true, "exit-code")), failed("exit-code"));
        assert_eq!(outcome("failed", &unit("failed", "failed", true, "start-limit-hit")), failed("start-limit-hit"));
        assert_eq!(outcome("dependency", &unit("inactive", "dead", true, "success")), failed("dependency"));
    }
}
