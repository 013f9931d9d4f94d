//! Microseconds, formatted and parsed as systemd does.

use std::fmt::{self, Write as _};
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A time on the monotonic clock or a time span, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usec(pub u64);

/// A text that is not a time span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid time span `{input}`; expected for example `270ms`, `16.639s` or `16min 40.410s`")]
pub struct BadSpan {
    pub input: String,
}

/// Units of time, longest first, as systemd prints them. A year has 365.25 days, and a month is a twelfth of a year.
const UNITS: [(&str, u64); 9] = [
    ("y", 31_557_600_000_000),
    ("month", 2_629_800_000_000),
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// All names that systemd accepts.
const ACCEPTED: [(&str, u64); 30] = [
    ("years", 31_557_600_000_000),
    ("year", 31_557_600_000_000),
    ("months", 2_629_800_000_000),
    ("M", 2_629_800_000_000),
    ("weeks", 604_800_000_000),
    ("week", 604_800_000_000),
    ("days", 86_400_000_000),
    ("day", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("hr", 3_600_000_000),
    ("minutes", 60_000_000),
    ("minute", 60_000_000),
    ("m", 60_000_000),
    ("seconds", 1_000_000),
    ("second", 1_000_000),
    ("sec", 1_000_000),
    ("msec", 1_000),
    ("usec", 1),
    ("\u{b5}s", 1),
    ("\u{3bc}s", 1),
    ("y", 31_557_600_000_000),
    ("month", 2_629_800_000_000),
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// `systemd-analyze` prints times with millisecond accuracy.
const ACCURACY: u64 = 1_000;

impl Usec {
    pub const ZERO: Self = Self(0);

    /// The difference, or zero if it would be negative.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The span in seconds, for drawing.
    #[expect(clippy::cast_precision_loss, reason = "boots are shorter than 285 years")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add for Usec {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Usec {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl std::iter::Sum for Usec {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_span(self.0))
    }
}

fn format_span(mut left: u64) -> String {
    if left == 0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    for (name, length) in UNITS {
        if left == 0 {
            break;
        }
        // A remainder below the accuracy is dropped unless it is all there is.
        if left < ACCURACY && !text.is_empty() {
            break;
        }
        if left < length {
            continue;
        }
        let (whole, rest) = (left / length, left % length);
        if !text.is_empty() {
            text.push(' ');
        }
        // Below a minute the rest is printed as a decimal fraction.
        let digits = length.ilog10().saturating_sub(ACCURACY.ilog10());
        if left < 60_000_000 && rest > 0 && digits > 0 {
            let places = usize::try_from(digits).unwrap_or_default();
            let rest = rest / ACCURACY.min(length);
            let _ = write!(text, "{whole}.{rest:0places$}{name}");
            break;
        }
        let _ = write!(text, "{whole}{name}");
        left = rest;
    }
    text
}

impl FromStr for Usec {
    type Err = BadSpan;

    fn from_str(input: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan { input: input.to_owned() };
        let mut rest = input.trim();
        let mut total: u64 = 0;
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let after = after.trim_start();
            let end = after.find(|c: char| !c.is_alphabetic() && c != '\u{b5}').unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            // A number without a unit is in seconds.
            let length = if name.is_empty() { Some(1_000_000) } else { length(name) }.ok_or_else(bad)?;
            total = total.checked_add(scaled(number, length).ok_or_else(bad)?).ok_or_else(bad)?;
            rest = after.trim_start();
        }
        Ok(Self(total))
    }
}

fn length(name: &str) -> Option<u64> {
    ACCEPTED.iter().find(|(known, _)| *known == name).map(|(_, length)| *length)
}

fn scaled(number: &str, length: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut value = whole.checked_mul(length)?;
    let mut place = length;
    for digit in fraction.bytes() {
        place /= 10;
        value = value.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_formatted_as_systemd_formats_them() {
        let shown = |usec: u64| Usec(usec).to_string();
        assert_eq!(shown(0), "0");
        assert_eq!(shown(500), "500us");
        assert_eq!(shown(270_000), "270ms");
        assert_eq!(shown(270_999), "270ms");
        assert_eq!(shown(20_972_400), "20.972s");
        assert_eq!(shown(1_000_000), "1s");
        assert_eq!(shown(5_000_400), "5.000s");
        assert_eq!(shown(69_608_000), "1min 9.608s");
        assert_eq!(shown(60_000_500), "1min");
        assert_eq!(shown(1_015_434_000), "16min 55.434s");
        assert_eq!(shown(3_600_000_000), "1h");
    }

    #[test]
    fn spans_are_parsed_in_every_spelling() {
        let read = |text: &str| text.parse::<Usec>().map(|usec| usec.0);
        assert_eq!(read("16min 55.434s"), Ok(1_015_434_000));
        assert_eq!(read("5ms"), Ok(5_000));
        assert_eq!(read("1.5 sec"), Ok(1_500_000));
        assert_eq!(read("2"), Ok(2_000_000));
        assert_eq!(read("3\u{b5}s"), Ok(3));
        for bad in ["", "s", "1x", "1..2s", "-1s", "99999999999999999999s", "1.2.3s"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_span_parses_back_to_the_millisecond(usec in 0..4_000_000_000_000u64) {
            let back: Usec = Usec(usec).to_string().parse().unwrap();
            prop_assert!(usec - back.0 < 1_000, "{usec} -> {} -> {}", Usec(usec), back.0);
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = text.parse::<Usec>();
        }
    }
}
