//! Values of options that are parsed.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use jiff::civil::Date;

/// A subscription by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription(String);

impl Subscription {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Subscription {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let lengths = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]);
        if lengths && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err("expected a GUID, such as `12345678-1234-1234-1234-1234567890ab`".to_owned())
        }
    }
}

/// The prefix of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogPrefix(String);

impl FromStr for LogPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.chars().find(|c| *c == ':' || c.is_whitespace()) {
            Some(c) => Err(format!("expected a prefix without spaces and colons, found `{}`", c.escape_default())),
            None if text.is_empty() => Err("expected a prefix that is not empty".to_owned()),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for LogPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A region with its number of replicas: `eastus` or `eastus=2`.
pub(crate) fn target_region(text: &str) -> Result<(String, Option<u32>), String> {
    let (name, replicas) = match text.split_once('=') {
        None => (text, None),
        Some((name, count)) => {
            let count = count.parse().ok().filter(|count| (1..=100).contains(count));
            (name, Some(count.ok_or("expected 1 to 100 replicas, such as `eastus=2`")?))
        }
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ') {
        return Err("expected the name of a region, such as `eastus`".to_owned());
    }
    Ok((name.to_owned(), replicas))
}

/// kamino's log levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum LogLevel {
    /// Also each read and each wait
    Debug,
    /// Progress
    #[default]
    Info,
    /// Problems that kiln handles itself
    Warning,
    /// Failures
    Error,
    /// Failures that need a person now
    Critical,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Critical => "CRITICAL",
        })
    }
}

/// A day, such as `2026-12-01`. It begins at midnight UTC.
pub(crate) fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| "expected a day such as `2026-12-01`".to_owned())
}

/// The name of an annotation.
pub(crate) fn annotation(text: &str) -> Result<String, String> {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name_fits = (1..=63).contains(&name.len())
        && name.chars().all(plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let prefix_fits =
        prefix.is_none_or(|prefix| (1..=253).contains(&prefix.len()) && prefix.chars().all(|c| plain(c) && c != '_'));
    if name_fits && prefix_fits {
        Ok(text.to_owned())
    } else {
        Err("expected the name of an annotation, such as `example.com/last-patch`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscription_is_a_guid_in_either_case() {
        let id = "3A96EF56-41a9-40a0-b0f3-fb125c2b8798";
        assert_eq!(id.parse::<Subscription>().map(|s| s.as_str().to_owned()), Ok(id.to_ascii_lowercase()));
        for bad in ["", "my subscription", "3a96ef5641a940a0b0f3fb125c2b8798", "3a96ef56-41a9-40a0-b0f3-fb125c2b879g"] {
            assert!(bad.parse::<Subscription>().is_err(), "{bad}");
        }
    }

    #[test]
    fn log_prefix_has_no_space_and_no_colon() {
        assert!("run-7".parse::<LogPrefix>().is_ok());
        for bad in ["a b", "a:b", "a\tb", ""] {
            assert!(bad.parse::<LogPrefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn log_levels_are_ordered_by_severity() {
        assert!(LogLevel::Debug < LogLevel::Info && LogLevel::Error < LogLevel::Critical);
    }

    #[test]
    fn day_must_exist_in_the_calendar() {
        assert_eq!(day("2026-12-01").map(|day| day.to_string()), Ok("2026-12-01".to_owned()));
        for bad in ["tomorrow", "2026-13-01", "2026-02-30", ""] {
            assert!(day(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn annotation_is_a_qualified_name() {
        assert!(annotation("weave.works/kured-most-recent-reboot-needed").is_ok());
        assert!(annotation("patched").is_ok());
        for bad in ["", "a/b/c", "/a", "a=b", "a/", "-a"] {
            assert!(annotation(bad).is_err(), "{bad}");
        }
    }
}
