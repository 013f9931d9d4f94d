//! Transient timers: systemd runs commands after a while, whatever happens to the process that asked for it.

use std::time::Duration;

use serde::Serialize;
use zbus::{DynamicType, Variant};

use super::Systemd;
use crate::os::{Error, clock};

/// The pause before a unit is looked at again, or one that still exists is created again, and how often the latter is tried.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_ATTEMPTS: u32 = 40;

type Property<'a> = (&'a str, Variant<'a>);
type Command<'a> = (&'a str, Vec<&'a str>, bool);

impl Systemd {
    /// Lets systemd run commands after a while, as `NAME.service` by `NAME.timer`. The commands run one after the other, also if one fails.
    /// An earlier timer of this name is replaced. Returns when the timer runs.
    pub fn start_timer(&mut self, name: &str, after: Duration, commands: &[Vec<String>]) -> Result<(), Error> {
        self.stop_timer(name)?;
        let (timer, service) = (format!("{name}.timer"), format!("{name}.service"));
        let usec = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        let starts: Vec<Command<'_>> = commands
            .iter()
            .filter_map(|words| Some((words.first()?.as_str(), words.iter().map(String::as_str).collect(), true)))
            .collect();
        let mut refused = None;
        // The second name is the one of systemd before version 241.
        for when in [("TimersMonotonic", vec![("OnActiveSec", usec)].into()), ("OnActiveSec", usec.into())] {
            let timer_properties: Vec<Property<'_>> = vec![
                when,
                // By default a timer may be a minute late.
                ("AccuracyUSec", 1000_u64.into()),
                ("RemainAfterElapse", false.into()),
                // A timer starts after sysinit.target by default. On a node that still boots, the frozen journal would delay that for ever.
                ("DefaultDependencies", false.into()),
            ];
            let service_properties: Vec<Property<'_>> = vec![
                ("Type", "oneshot".into()),
                ("ExecStart", starts.clone().into()),
                // The journal may not be able to write at that time.
                ("StandardOutput", "null".into()),
                ("StandardError", "null".into()),
                // Nothing that starts or stops may delay it.
                ("DefaultDependencies", false.into()),
            ];
            let also = vec![(service.as_str(), service_properties)];
            let body = (timer.as_str(), "replace", timer_properties, also);
            match self.start_transient(&timer, &body) {
                Err(error @ Error::SystemdRefused { .. }) => refused = Some(error),
                Err(error) => return Err(error),
                Ok(()) => return self.wait_active(&timer),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Waits until a unit is active. systemd answers when the job is in its queue, where it may stay.
    fn wait_active(&mut self, unit: &str) -> Result<(), Error> {
        let deadline = clock::boot_time() + self.timeout;
        while !self.unit(unit)?.is_active() {
            if clock::boot_time() >= deadline {
                let seconds = self.timeout.as_secs();
                return Err(Error::JobTimeout { member: "StartTransientUnit".into(), unit: unit.into(), seconds });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Creates and starts a unit. systemd forgets an earlier unit of its name some time after it has stopped.
    fn start_transient<B: Serialize + DynamicType>(&mut self, unit: &str, body: &B) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            match self.call_manager("StartTransientUnit", unit, body) {
                Err(Error::SystemdRefused { name, .. }) if name.ends_with(".UnitExists") && attempts < MAX_ATTEMPTS => {
                    attempts += 1;
                    std::thread::sleep(PAUSE);
                }
                answer => return answer.map(drop),
            }
        }
    }

    /// Removes a timer that has not elapsed.
    pub fn stop_timer(&mut self, name: &str) -> Result<(), Error> {
        for unit in [format!("{name}.timer"), format!("{name}.service")] {
            match self.call_manager("StopUnit", &unit, &(unit.as_str(), "replace")) {
                Err(error) if !error.is_no_such_unit() => return Err(error),
                _ => {}
            }
            self.reset_failed(&unit)?;
        }
        Ok(())
    }
}
