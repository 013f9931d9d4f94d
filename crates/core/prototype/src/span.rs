//! Time spans as users write them: `60`, `5m`, `2h`, `3d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A time span in whole seconds, as in `--minimum-ready-time` and `--max-age`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(u64);

impl Span {
    /// A span in seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    /// A span in days. Saturates.
    pub const fn from_days(days: u64) -> Self {
        Self(days.saturating_mul(DAY))
    }

    /// The number of seconds.
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// The time between two instants; zero if the second is earlier.
    pub fn between(from: jiff::Timestamp, to: jiff::Timestamp) -> Self {
        Self(u64::try_from(to.as_second() - from.as_second()).unwrap_or(0))
    }
}

impl FromStr for Span {
    type Err = Error;

    fn from_str(input: &str) -> Result<Self, Error> {
        let digits = input.len() - input.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = input.split_at(digits);
        if number.is_empty() {
            return Err(Error::SpanNumber(input.to_owned()));
        }
        let seconds = match unit {
            "" | "s" => 1,
            "m" => MINUTE,
            "h" => HOUR,
            "d" => DAY,
            _ => return Err(Error::SpanUnit { input: input.to_owned(), unit: unit.to_owned() }),
        };
        let number: Option<u64> = number.parse().ok();
        number.and_then(|n| n.checked_mul(seconds)).map(Self).ok_or_else(|| Error::SpanTooLong(input.to_owned()))
    }
}

impl TryFrom<String> for Span {
    type Error = Error;

    fn try_from(input: String) -> Result<Self, Error> {
        input.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_secs(span.0)
    }
}

/// In the largest unit without a fraction, so that it parses to the same span.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            0 => (0, "s"),
            s if s % DAY == 0 => (s / DAY, "d"),
            s if s % HOUR == 0 => (s / HOUR, "h"),
            s if s % MINUTE == 0 => (s / MINUTE, "m"),
            s => (s, "s"),
        };
        f.pad(&format!("{number}{unit}"))
    }
}

/// Formats a span for people: the two largest units, rounded down, as in `3 min 44 s`.
pub fn format_span(span: impl Into<Duration>) -> String {
    let seconds = span.into().as_secs();
    let whole = |unit: u64| seconds / unit;
    let pair = |large: u64, large_name: &str, small: u64, small_name: &str| match (seconds % large) / small {
        0 => format!("{} {large_name}", whole(large)),
        rest => format!("{} {large_name} {rest} {small_name}", whole(large)),
    };
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => pair(MINUTE, "min", 1, "s"),
        HOUR..DAY => pair(HOUR, "h", MINUTE, "min"),
        _ => pair(DAY, "d", HOUR, "h"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> u64 {
        text.parse::<Span>().unwrap().as_secs()
    }

    #[test]
    fn number_without_a_unit_is_seconds() {
        assert_eq!((seconds("60"), seconds("60s")), (60, 60));
        assert_eq!((seconds("5m"), seconds("2h"), seconds("3d")), (300, 7200, 259_200));
        assert_eq!(seconds("0"), 0);
    }

    #[test]
    fn invalid_span_is_shown_with_the_problem() {
        for bad in ["", "m", "-5m", "+5m", " 5m", "1.5h"] {
            let error = bad.parse::<Span>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
        assert_eq!("5w".parse::<Span>(), Err(Error::SpanUnit { input: "5w".into(), unit: "w".into() }));
        assert_eq!("5M".parse::<Span>(), Err(Error::SpanUnit { input: "5M".into(), unit: "M".into() }));
        assert_eq!("1h30m".parse::<Span>(), Err(Error::SpanUnit { input: "1h30m".into(), unit: "h30m".into() }));
        for long in ["999999999999999999d", "99999999999999999999999"] {
            assert!(matches!(long.parse::<Span>(), Err(Error::SpanTooLong(_))), "{long}");
        }
    }

    #[test]
    fn span_is_formatted_with_at_most_two_units() {
        let formatted = |s| format_span(Duration::from_secs(s));
        assert_eq!((formatted(0), formatted(224)), ("0 s".into(), "3 min 44 s".into()));
        assert_eq!((formatted(3600), formatted(5291)), ("1 h".into(), "1 h 28 min".into()));
        assert_eq!(formatted(8 * DAY + 3 * HOUR + 59), "8 d 3 h");
    }

    #[test]
    fn end_before_the_start_is_a_zero_span() {
        let at = |s| jiff::Timestamp::from_second(s).unwrap();
        assert_eq!(Span::between(at(100), at(40)), Span::from_secs(0));
        assert_eq!(Span::between(at(40), at(100)), Span::from_secs(60));
    }

    proptest! {
        #[test]
        fn span_round_trips_through_text(seconds: u64) {
            let span = Span::from_secs(seconds);
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
    }
}
