//! Jobs: starting and stopping units. The result of a job does not tell whether the unit runs, so its state is read too.

use std::io;
use std::time::Duration;

use zbus::OwnedObjectPath;

use super::{Systemd, UNIT, UnitState, is_closed};
use crate::os::{Error, clock};

/// The target that reboots the machine.
const REBOOT: &str = "reboot.target";

/// The result of starting, restarting or reloading a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// The unit runs, or is a oneshot unit that has finished.
    Started,
    /// A condition was not met and the unit does not run. A restart has stopped it.
    Skipped,
    Failed {
        /// The result of the job or of the service.
        result: String,
    },
}

impl JobOutcome {
    /// Whether the unit was started.
    pub fn is_started(&self) -> bool {
        *self == Self::Started
    }
}

impl Systemd {
    /// Starts a unit and waits. During a boot this can deadlock, since the unit may be ordered after kilnd; use [`Self::start_no_wait`] there.
    pub fn start(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.reset_failed(unit)?;
        self.job("StartUnit", unit)
    }

    /// Restarts a unit and waits.
    pub fn restart(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.reset_failed(unit)?;
        self.job("RestartUnit", unit)
    }

    /// Reloads a unit if it runs, or restarts it if it cannot reload, and waits.
    pub fn reload(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.job("ReloadOrTryRestartUnit", unit)
    }

    /// Restarts a unit if it runs, and waits.
    pub fn restart_if_running(&mut self, unit: &str) -> Result<JobOutcome, Error> {
        self.reset_failed(unit)?;
        self.job("TryRestartUnit", unit)
    }

    /// Stops a unit and waits.
    pub fn stop(&mut self, unit: &str) -> Result<UnitState, Error> {
        self.run_job("StopUnit", unit)?;
        self.unit(unit)
    }

    /// Queues a start job without waiting.
    pub fn start_no_wait(&mut self, unit: &str) -> Result<(), Error> {
        self.reset_failed(unit)?;
        self.call_manager("StartUnit", unit, &(unit, "replace")).map(drop)
    }

    /// Whether the unit has a queued or running job.
    pub fn has_job(&mut self, unit: &str) -> Result<bool, Error> {
        Ok(self.unit_property_pair(unit)?.0 != 0)
    }

    /// Whether the unit runs or is starting.
    pub fn is_up(&mut self, unit: &str) -> Result<bool, Error> {
        let state: String = self.unit_property(unit, UNIT, "ActiveState")?;
        Ok(matches!(state.as_str(), "active" | "activating" | "reloading" | "refreshing"))
    }

    /// Queues a restart job without waiting.
    pub fn restart_no_wait(&mut self, unit: &str) -> Result<(), Error> {
        self.reset_failed(unit)?;
        self.call_manager("RestartUnit", unit, &(unit, "replace")).map(drop)
    }

    /// Reboots the machine as `systemctl reboot` does: all services are stopped first. Does not wait.
    pub fn reboot(&mut self) -> Result<(), Error> {
        self.call_manager("StartUnit", REBOOT, &(REBOOT, "replace-irreversibly")).map(drop)
    }

    /// Resets failures and the start counter: systemd refuses more than five starts within ten seconds, and kilnd's count too.
    pub fn reset_failed(&mut self, unit: &str) -> Result<(), Error> {
        match self.call_manager("ResetFailedUnit", unit, &(unit,)) {
            // A unit that is not loaded has no counter.
            Err(error) if !error.is_no_such_unit() => Err(error),
            _ => Ok(()),
        }
    }

    fn job(&mut self, member: &str, unit: &str) -> Result<JobOutcome, Error> {
        let result = self.run_job(member, unit)?;
        Ok(outcome(&result, &self.unit(unit)?))
    }

    /// Runs a job and returns its result; `done` if it ended while the connection was lost.
    fn run_job(&mut self, member: &str, unit: &str) -> Result<String, Error> {
        let deadline = clock::boot_time() + self.timeout;
        // Before the job, so that its end is not missed.
        self.call_manager("Subscribe", unit, &())?;
        let job: OwnedObjectPath = self.manager(member, unit, &(unit, "replace"))?;
        let ended = self.wait_for(&job, unit, deadline);
        if let Some(link) = &self.link {
            link.set_timeout(self.timeout).map_err(|source| self.unreachable(source))?;
        }
        ended?.ok_or_else(|| Error::JobTimeout {
            member: member.to_owned(),
            unit: unit.to_owned(),
            seconds: self.timeout.as_secs(),
        })
    }

    /// Waits for the result of a job; none after the timeout.
    fn wait_for(&mut self, job: &OwnedObjectPath, unit: &str, deadline: Duration) -> Result<Option<String>, Error> {
        loop {
            let left = deadline.saturating_sub(clock::boot_time());
            if left.is_zero() {
                return Ok(None);
            }
            let link = self.link()?;
            let signal = link.set_timeout(left).and_then(|()| link.signal());
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
                Err(error) if is_closed(&error) => {
                    self.link = None;
                    if !self.is_running(job, unit)? {
                        return Ok(Some("done".to_owned()));
                    }
                }
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// Whether a job still exists, after the connection was lost. systemd keeps jobs across `daemon-reexec`.
    fn is_running(&mut self, job: &OwnedObjectPath, unit: &str) -> Result<bool, Error> {
        self.call_manager("Subscribe", unit, &())?;
        let (_, now): (u32, OwnedObjectPath) = self.unit_property_pair(unit)?;
        Ok(now == *job)
    }

    fn unit_property_pair(&mut self, unit: &str) -> Result<(u32, OwnedObjectPath), Error> {
        let value: zbus::OwnedVariant = self.unit_property(unit, UNIT, "Job")?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "`Job` has an unexpected type");
        <(u32, OwnedObjectPath)>::try_from(value).map_err(|_| self.unreachable(wrong()))
    }
}

fn outcome(result: &str, unit: &UnitState) -> JobOutcome {
    let failed = |result: &str| JobOutcome::Failed { result: result.to_owned() };
    match (result, unit.active.as_str()) {
        ("skipped", _) => JobOutcome::Skipped,
        ("done", "failed") => failed(&unit.result),
        // The service exited at once and waits for its restart.
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
    fn finished_job_does_not_imply_a_started_unit() {
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
