//! Durations in Go's format: `1h30m`, `90s`, `100ms`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A duration in nanoseconds that is formatted like Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GoDuration(i64);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration `{0}`; expected numbers with units, such as `1h30m` or `100ms`")]
pub struct BadDuration(pub String);

const NANO: i128 = 1;
const MICRO: i128 = 1_000;
const MILLI: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;

impl GoDuration {
    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the number of nanoseconds.
    pub fn nanos(self) -> i64 {
        self.0
    }

    /// Returns whole seconds, rounded towards zero.
    pub fn whole_seconds(self) -> i64 {
        self.0 / 1_000_000_000
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = i128::from(self.0).abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match total {
            0 => f.write_str("0s"),
            MICRO.. if total < MILLI => write!(f, "{}µs", fraction(total, MICRO)),
            MILLI.. if total < SECOND => write!(f, "{}ms", fraction(total, MILLI)),
            SECOND.. => {
                let minutes = total / (60 * SECOND);
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", fraction(total % (60 * SECOND), SECOND))
            }
            _ => write!(f, "{total}ns"),
        }
    }
}

fn fraction(total: i128, unit: i128) -> String {
    let rest = total % unit;
    if rest == 0 {
        return (total / unit).to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{}.{}", total / unit, digits.trim_end_matches('0'))
}

impl FromStr for GoDuration {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Self, BadDuration> {
        parse(text).map(Self).ok_or_else(|| BadDuration(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let unit = match unit {
            "ns" => NANO,
            "us" | "µs" | "μs" => MICRO,
            "ms" => MILLI,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            _ => return None,
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if (whole.is_empty() && part.is_empty()) || part.contains('.') || whole.len() > 19 {
            return None;
        }
        total += if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? } * unit;
        // Digits after the eighteenth are less than a nanosecond even for hours.
        let part: String = part.chars().take(18).collect();
        if !part.is_empty() {
            total += part.parse::<i128>().ok()? * unit / 10_i128.pow(u32::try_from(part.len()).ok()?);
        }
        if total > i128::from(i64::MAX) {
            return None;
        }
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

impl TryFrom<String> for GoDuration {
    type Error = BadDuration;

    fn try_from(text: String) -> Result<Self, BadDuration> {
        text.parse()
    }
}

impl From<GoDuration> for String {
    fn from(duration: GoDuration) -> Self {
        duration.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_print_like_go() {
        for (given, printed) in [
            ("90s", "1m30s"),
            ("4h", "4h0m0s"),
            ("100ms", "100ms"),
            ("1.5h", "1h30m0s"),
            ("0", "0s"),
            ("1500us", "1.5ms"),
            ("250ns", "250ns"),
            ("-2m", "-2m0s"),
            ("1h0.5s", "1h0m0.5s"),
        ] {
            assert_eq!(given.parse::<GoDuration>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn invalid_durations_are_rejected() {
        for text in ["", "-", "5", "s", ".s", "1x", "1..5s", "99999999999999999999h", "300000h1h9999999h", "1h 2m"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_survive_a_round_trip(nanos in any::<i64>().prop_filter("has an opposite", |n| *n != i64::MIN)) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
        }

        #[test]
        fn parsing_never_panics(text in "[-+0-9.nµumsh ]{0,24}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
