//! The schedule of prototype runs.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::RunSchedule;

use crate::policy::PolicyError;
use crate::window::{bad_time, clock, first_moment, parse_days, parse_zone};

/// Days that are looked at: each schedule has a time within a week, and time zones add one day.
const DAYS: std::ops::RangeInclusive<i64> = -1..=8;

/// A parsed schedule: a time on some days of the week.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// From Monday.
    days: [bool; 7],
    at: Time,
    zone: TimeZone,
}

impl Schedule {
    /// Parses days, time and time zone.
    pub fn parse(spec: &RunSchedule) -> Result<Self, PolicyError> {
        let at = clock(&spec.at).ok_or_else(|| bad_time("schedule", "at", &spec.at))?;
        let (days, zone) = (parse_days("schedule", &spec.days)?, parse_zone("schedule", &spec.time_zone)?);
        Ok(Self { days, at, zone })
    }

    /// The first time of the schedule after this one. A time that the clock skips is the moment of the change; of a repeated time the first one counts.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let today = self.zone.to_datetime(now).date();
        let times = DAYS.filter_map(|day| {
            let date = today.checked_add(SignedDuration::from_hours(24 * day)).ok()?;
            let is_listed = self.days[usize::from(date.weekday().to_monday_zero_offset().unsigned_abs())];
            is_listed.then(|| first_moment(&self.zone, date.to_datetime(self.at)))?
        });
        times.filter(|time| *time > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(days: &[&str], at: &str, zone: &str, now: &str) -> Option<String> {
        let days = days.iter().map(ToString::to_string).collect();
        let spec = RunSchedule { days, at: at.to_owned(), time_zone: zone.to_owned() };
        let schedule = Schedule::parse(&spec).expect("a schedule");
        schedule.next_after(now.parse().expect("a time")).map(|time| time.to_string())
    }

    #[test]
    fn next_time_is_on_the_next_listed_day_in_the_time_zone() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(next(&[], "02:00", "", "2026-11-18T01:59:59Z"), some("2026-11-18T02:00:00Z"));
        assert_eq!(next(&[], "02:00", "", "2026-11-18T02:00:00Z"), some("2026-11-19T02:00:00Z"));
        assert_eq!(next(&["Sun"], "02:00", "Europe/Berlin", "2026-11-18T12:00:00Z"), some("2026-11-22T01:00:00Z"));
        assert_eq!(
            next(&["Sat-Mon"], "00:30", "Pacific/Auckland", "2026-11-20T10:00:00Z"),
            some("2026-11-20T11:30:00Z")
        );
    }

    #[test]
    fn skipped_and_repeated_hours_have_one_run_each() {
        let some = |text: &str| Some(text.to_owned());
        // Berlin skips 02:00 to 03:00 on 2026-03-29 and repeats it on 2026-10-25.
        assert_eq!(next(&[], "02:30", "Europe/Berlin", "2026-03-28T12:00:00Z"), some("2026-03-29T01:00:00Z"));
        assert_eq!(next(&[], "02:30", "Europe/Berlin", "2026-03-29T01:00:00Z"), some("2026-03-30T00:30:00Z"));
        assert_eq!(next(&[], "02:30", "Europe/Berlin", "2026-10-24T12:00:00Z"), some("2026-10-25T00:30:00Z"));
        assert_eq!(next(&[], "02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"), some("2026-10-26T01:30:00Z"));
    }

    #[test]
    fn invalid_fields_are_named() {
        let error = |days: &[&str], at: &str, zone: &str| {
            let days = days.iter().map(ToString::to_string).collect();
            Schedule::parse(&RunSchedule { days, at: at.to_owned(), time_zone: zone.to_owned() })
                .unwrap_err()
                .to_string()
        };
        assert!(error(&[], "25:00", "").contains("`schedule.at`: invalid time `25:00`"));
        assert!(error(&["Someday"], "02:00", "").contains("`schedule.days[0]`"));
        assert!(error(&[], "02:00", "Mars/Olympus").contains("`schedule.timeZone`: unknown time zone `Mars/Olympus`"));
    }
}
