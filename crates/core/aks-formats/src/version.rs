//! Kubernetes versions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A Kubernetes version such as `1.33.7`, with optional leading `v` and suffix. Ordered by its numbers; a pre-release sorts before the
/// release, as in semantic versioning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubernetesVersion {
    major: u32,
    minor: u32,
    patch: u32,
    suffix: String,
}

/// A text that is not a Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid Kubernetes version `{0}`; expected three numbers such as `1.33.7`")]
pub struct BadVersion(pub String);

impl KubernetesVersion {
    /// Returns the minor version: 33 for `1.33.7`.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// Whether the version is at least `1.{minor}`.
    pub fn at_least(&self, minor: u32) -> bool {
        (self.major, self.minor) >= (1, minor)
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{}", self.major, self.minor, self.patch, self.suffix)
    }
}

impl FromStr for KubernetesVersion {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion(text.to_owned());
        let plain = text.strip_prefix('v').unwrap_or(text);
        let end = plain.find(['-', '+']).unwrap_or(plain.len());
        let (numbers, suffix) = plain.split_at(end);
        let suffix_is_plain = suffix.chars().all(|c| c.is_ascii_alphanumeric() || "-+.".contains(c));
        if !suffix_is_plain || suffix.len() == 1 {
            return Err(bad());
        }
        let mut parts = numbers.split('.').map(|part| {
            let canonical = part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            canonical.then(|| part.parse().ok()).flatten().ok_or_else(bad)
        });
        let mut next = || parts.next().unwrap_or_else(|| Err(bad()));
        let version = Self { major: next()?, minor: next()?, patch: next()?, suffix: suffix.to_owned() };
        if parts.next().is_some() { Err(bad()) } else { Ok(version) }
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = BadVersion;

    fn try_from(text: String) -> Result<Self, BadVersion> {
        text.parse()
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

impl Ord for KubernetesVersion {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Only a pre-release (`-`) sorts before the release; `+` starts build metadata.
        let rank = |v: &Self| u8::from(!v.suffix.starts_with('-'));
        (self.major, self.minor, self.patch, rank(self), &self.suffix).cmp(&(
            other.major,
            other.minor,
            other.patch,
            rank(other),
            &other.suffix,
        ))
    }
}

impl PartialOrd for KubernetesVersion {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_v_is_dropped_and_suffix_is_kept() {
        let version: KubernetesVersion = "v1.33.7-gke.1".parse().unwrap();
        assert_eq!(version.to_string(), "1.33.7-gke.1");
        assert_eq!(version.minor(), 33);
        assert!(version.at_least(33) && !version.at_least(34));
    }

    #[test]
    fn invalid_version_is_rejected_with_its_text() {
        for text in ["", "1", "1.33", "1.33.7.1", "1.x.7", "1.033.7", "1.33.7-", "1.33.7-$(id)", "1.33.99999999999"] {
            assert_eq!(text.parse::<KubernetesVersion>(), Err(BadVersion(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number_with_pre_releases_first() {
        let parse = |text: &str| text.parse::<KubernetesVersion>().unwrap();
        assert!(parse("1.9.0") < parse("1.10.0"));
        assert!(parse("1.33.0-rc.1") < parse("1.33.0"));
        assert!(parse("1.33.0") < parse("1.33.0+build"));
    }
}
