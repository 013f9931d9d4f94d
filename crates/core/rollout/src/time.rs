//! Arithmetic with times that never fails: clocks jump, and annotations contain anything.

use jiff::{SignedDuration, Timestamp};

/// Returns the time after a duration, at most the last time that exists.
pub(crate) fn add(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// Returns the time between two times, and zero if the clock jumped back.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> SignedDuration {
    now.duration_since(since).max(SignedDuration::ZERO)
}

/// Parses a time of the API. Text that is not a time is ignored.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Parses a stored time. A time in the future is now: the clock jumped back, and waiting for the old time could take hours.
pub(crate) fn past(text: Option<&str>, now: Timestamp) -> Option<Timestamp> {
    text.and_then(parse).map(|time| time.min(now))
}

/// Formats a time for the API, with seconds.
pub(crate) fn text(time: Timestamp) -> String {
    format!("{time:.0}")
}
