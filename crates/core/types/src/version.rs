//! Image version numbers.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::BadName;

/// The number of an image version, such as `2026.11.05`.
///
/// Versions compare as numbers, so `2026.11.5` equals `2026.11.05`, but print as written: Azure finds each only under its own name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionNumber {
    written: String,
    parts: [u32; 3],
}

impl VersionNumber {
    /// The version's name, as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// The three numbers.
    pub fn parts(&self) -> [u32; 3] {
        self.parts
    }
}

impl TryFrom<String> for VersionNumber {
    type Error = BadName;

    fn try_from(written: String) -> Result<Self, BadName> {
        match parse_parts(&written) {
            Some(parts) => Ok(Self { written, parts }),
            None => Err(BadName {
                noun: "image version",
                input: written,
                rule: "three numbers separated by dots, each at most 4294967295",
            }),
        }
    }
}

fn parse_parts(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|part| {
        // `parse` alone would accept `+1`.
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

impl FromStr for VersionNumber {
    type Err = BadName;

    fn from_str(input: &str) -> Result<Self, BadName> {
        Self::try_from(input.to_owned())
    }
}

impl From<VersionNumber> for String {
    fn from(version: VersionNumber) -> Self {
        version.written
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl PartialEq for VersionNumber {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for VersionNumber {}

impl Hash for VersionNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
    }
}

impl Ord for VersionNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts.cmp(&other.parts)
    }
}

impl PartialOrd for VersionNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> VersionNumber {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(version("2026.9.30") < version("2026.11.05"));
        assert!(version("10.0.0") > version("9.99.99"));
    }

    #[test]
    fn leading_zeros_are_kept_but_not_compared() {
        assert_eq!(version("2026.11.05"), version("2026.11.5"));
        assert_eq!(version("2026.11.05").to_string(), "2026.11.05");
    }

    #[test]
    fn error_shows_text_that_is_not_three_numbers() {
        for bad in ["", "1.2", "1.2.3.4", "1..3", "1.2.x", "+1.2.3", "1.2.4294967296", " 1.2.3"] {
            assert_eq!(bad.parse::<VersionNumber>().unwrap_err().input, bad);
        }
    }

    proptest! {
        #[test]
        fn version_round_trips_through_text_and_json(a: u32, b: u32, c: u32) {
            let written = format!("{a}.{b}.{c}");
            let parsed = version(&written);
            prop_assert_eq!(parsed.parts(), [a, b, c]);
            let json = serde_json::to_string(&parsed).unwrap();
            let back: VersionNumber = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back.as_str(), written);
        }
    }
}
