//! Windows: when work with an effect may begin.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Effect, Window as WindowSpec};

use crate::policy::PolicyError;

/// Days around now for which windows are calculated. Each window occurs within a week; time zones and the length of a window add one day each.
const DAYS: std::ops::RangeInclusive<i64> = -2..=9;

const DEFAULT_EFFECTS: [Effect; 3] = [Effect::Drain, Effect::Reboot, Effect::Replace];

/// All windows of a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows(Vec<Window>);

#[derive(Clone, Debug)]
struct Window {
    /// Days on which it begins, from Monday.
    days: [bool; 7],
    from: Time,
    to: Time,
    ends_next_day: bool,
    zone: TimeZone,
    effects: Vec<Effect>,
}

/// Whether work may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    /// Closed until this time, at which a window opens that is long enough. Without a time, every window is too short.
    Closed(Option<Timestamp>),
}

impl Windows {
    pub(crate) fn parse(specs: &[WindowSpec]) -> Result<Self, PolicyError> {
        let windows = specs.iter().enumerate().map(|(index, spec)| Window::parse(&format!("windows[{index}]"), spec));
        windows.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether work with an effect that takes `needed` may begin now. An effect that no window lists needs none.
    pub(crate) fn access(&self, effect: Effect, needed: SignedDuration, now: Timestamp) -> Access {
        let listing: Vec<&Window> = self.0.iter().filter(|window| window.effects.contains(&effect)).collect();
        if listing.is_empty() {
            return Access::Open;
        }
        let mut spans: Vec<(Timestamp, Timestamp)> = listing.iter().flat_map(|window| window.spans(now)).collect();
        spans.sort_unstable();
        let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (begin, end) in spans {
            match joined.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((begin, end)),
            }
        }
        let mut long_enough =
            joined.iter().filter(|(begin, end)| *end > now && end.duration_since((*begin).max(now)) >= needed);
        match long_enough.next() {
            Some((begin, _)) if *begin <= now => Access::Open,
            next => Access::Closed(next.map(|(begin, _)| *begin)),
        }
    }
}

impl Window {
    fn parse(field: &str, spec: &WindowSpec) -> Result<Self, PolicyError> {
        let days = parse_days(field, &spec.days)?;
        let from = clock(&spec.from).ok_or_else(|| bad_time(field, "from", &spec.from))?;
        let is_midnight = spec.to == "24:00";
        let to = if is_midnight { Some(Time::midnight()) } else { clock(&spec.to) };
        let to = to.ok_or_else(|| bad_time(field, "to", &spec.to))?;
        if from == to && !is_midnight {
            return Err(PolicyError::EmptyWindow { field: field.to_owned() });
        }
        let zone = parse_zone(field, &spec.time_zone)?;
        let effects = if spec.effects.is_empty() { DEFAULT_EFFECTS.to_vec() } else { spec.effects.clone() };
        Ok(Self { days, from, to, ends_next_day: is_midnight || to < from, zone, effects })
    }

    /// Its occurrences around `now`.
    fn spans(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        let today = self.zone.to_datetime(now).date();
        DAYS.filter_map(move |day| {
            let date = today.checked_add(SignedDuration::from_hours(24 * day)).ok()?;
            self.days[usize::from(date.weekday().to_monday_zero_offset().unsigned_abs())].then(|| self.span(date))?
        })
    }

    /// The occurrence that begins on a day. It is empty if the clock skips all of it.
    fn span(&self, date: Date) -> Option<(Timestamp, Timestamp)> {
        let last = if self.ends_next_day { date.tomorrow().ok()? } else { date };
        let begin = first_moment(&self.zone, date.to_datetime(self.from))?;
        let end = first_moment(&self.zone, last.to_datetime(self.to))?;
        (begin < end).then_some((begin, end))
    }
}

/// Parses days and ranges of days, from Monday. None means all.
pub(crate) fn parse_days(field: &str, texts: &[String]) -> Result<[bool; 7], PolicyError> {
    let mut days = [texts.is_empty(); 7];
    for (index, text) in texts.iter().enumerate() {
        let bad = || PolicyError::Days { field: format!("{field}.days[{index}]"), text: text.clone() };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (weekday(first).ok_or_else(bad)?, weekday(last).ok_or_else(bad)?);
        // `Fri-Mon` wraps around.
        let length = (last + 7 - first) % 7;
        (0..=length).for_each(|day| days[(first + day) % 7] = true);
    }
    Ok(days)
}

/// Finds a time zone. Not in the database of the machine: a decision must not depend on its files.
pub(crate) fn parse_zone(field: &str, name: &str) -> Result<TimeZone, PolicyError> {
    let found = TimeZoneDatabase::bundled().get(if name.is_empty() { "UTC" } else { name });
    found.map_err(|_| PolicyError::TimeZone { field: format!("{field}.timeZone"), text: name.to_owned() })
}

/// The first moment at which a clock in the zone shows this time or a later one.
pub(crate) fn first_moment(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(time).ok(),
        // The hour is repeated: the first one counts, so that a window does not end later than written.
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(time).ok(),
        // The hour is skipped: the clock passes the time at the moment of the change.
        AmbiguousOffset::Gap { after, .. } => {
            let before_change = after.to_timestamp(time).ok()?;
            zone.following(before_change).next().map(|change| change.timestamp())
        }
    }
}

fn weekday(text: &str) -> Option<usize> {
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].iter().position(|name| *name == text)
}

/// Parses `HH:MM`.
pub(crate) fn clock(text: &str) -> Option<Time> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i8>().ok())?
    };
    Time::new(number(hours)?, number(minutes)?, 0, 0).ok()
}

pub(crate) fn bad_time(field: &str, name: &str, text: &str) -> PolicyError {
    PolicyError::Time { field: format!("{field}.{name}"), text: text.to_owned() }
}
