//! A pool on hold: no automatic run touches it until a person or a date says so.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use kiln_types::{ImageDefinition, Tags};
use serde::Serialize;

use crate::provenance::{shorten, value};

/// The tag of a line whose pool is on hold.
pub const HOLD_TAG: &str = "kiln-hold";

/// Why and until when a pool is on hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Since when.
    pub since: Option<Timestamp>,
    /// The first day on which automatic runs go on; without one, a person lifts the hold.
    pub after: Option<Date>,
    /// What new nodes were taken back to: a version, or `original`.
    pub to: Option<String>,
    pub who: Option<String>,
    pub reason: String,
}

impl Hold {
    /// The hold that a line's tags speak of. Text that cannot be read is a hold all the same: somebody wrote it for a reason.
    pub fn read(tags: &Tags) -> Option<Self> {
        let text = value(tags, HOLD_TAG)?;
        let mut hold = Self { since: None, after: None, to: None, who: None, reason: String::new() };
        let mut rest = text;
        loop {
            let (part, more) = rest.split_once("; ").unwrap_or((rest, ""));
            match part.split_once('=') {
                Some(("since", at)) => hold.since = at.parse().ok(),
                Some(("after", day)) => hold.after = day.parse().ok(),
                Some(("to", to)) => hold.to = Some(to.to_owned()),
                Some(("by", who)) => hold.who = Some(who.to_owned()),
                // The last of them, because a reason may hold anything.
                Some(("because", _)) => {
                    rest["because=".len()..].clone_into(&mut hold.reason);
                    return Some(hold);
                }
                _ => {
                    rest.clone_into(&mut hold.reason);
                    return Some(hold);
                }
            }
            if more.is_empty() {
                return Some(hold);
            }
            rest = more;
        }
    }

    /// The tag that says so.
    pub fn tags(&self) -> Tags {
        let plain = |text: &str| text.replace(';', ",");
        let parts = [
            self.since.map(|at| format!("since={at}")),
            self.after.map(|day| format!("after={day}")),
            self.to.as_deref().map(|to| format!("to={}", plain(to))),
            self.who.as_deref().map(|who| format!("by={}", plain(who).chars().take(64).collect::<String>())),
            Some(format!("because={}", self.reason)),
        ];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        Tags::from([(HOLD_TAG.to_owned(), shorten(&text).to_owned())])
    }

    /// Whether the pool has its original recipe because of it.
    pub fn is_to_original(&self) -> bool {
        self.to.as_deref() == Some("original")
    }

    /// Whether no automatic run may start on this day.
    pub fn blocks(&self, today: Date) -> bool {
        self.after.is_none_or(|day| today < day)
    }
}

/// The tags that lift a hold. What was bad stays remembered.
pub fn lift(line: &ImageDefinition) -> Option<Tags> {
    Hold::read(&line.tags).map(|_| Tags::from([(HOLD_TAG.to_owned(), String::new())]))
}

/// The tags that let a hold end by itself on a day.
pub fn lift_after(line: &ImageDefinition, day: Date) -> Option<Tags> {
    Hold::read(&line.tags).map(|hold| Hold { after: Some(day), ..hold }.tags())
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on hold")?;
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        if let Some(who) = &self.who {
            write!(f, " by {who}")?;
        }
        if let Some(to) = &self.to {
            write!(f, ", taken back to {to}")?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        match self.after {
            Some(day) => write!(f, " (automatic runs go on from {day})"),
            None => f.write_str(" (`kiln prototype rollback --lift-hold` ends it)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{line, tags};

    fn hold() -> Hold {
        Hold {
            since: Some("2026-11-16T00:10:00Z".parse().unwrap()),
            after: Some("2026-12-01".parse().unwrap()),
            to: Some("2026.11.08".into()),
            who: Some("alice".into()),
            reason: "kubelet crashes; by=design?".into(),
        }
    }

    #[test]
    fn a_hold_reads_back_from_its_tag_whatever_its_reason_says() {
        assert_eq!(Hold::read(&hold().tags()), Some(hold()));
        let bare = Hold { since: None, after: None, to: None, who: None, reason: String::new() };
        assert_eq!(Hold::read(&bare.tags()), Some(bare));
    }

    #[test]
    fn a_hold_written_by_hand_holds() {
        let read = Hold::read(&tags([(HOLD_TAG, "do not touch; ask bob")])).unwrap();
        assert_eq!(read.reason, "do not touch; ask bob");
        assert!(read.blocks("2099-01-01".parse().unwrap()));
    }

    #[test]
    fn it_ends_on_its_day_and_without_one_never() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        assert!(hold().blocks(day("2026-11-30")));
        assert!(!hold().blocks(day("2026-12-01")));
        assert!(Hold { after: None, ..hold() }.blocks(day("2099-01-01")));
    }

    #[test]
    fn lifting_empties_the_tag_and_there_must_be_something_to_lift() {
        let mut line = line();
        assert_eq!(lift(&line), None);
        line.tags = hold().tags();
        let lifted = lift(&line).unwrap();
        line.tags.extend(lifted);
        assert_eq!(Hold::read(&line.tags), None);
    }

    #[test]
    fn a_hold_can_be_told_to_end_on_a_day() {
        let mut line = line();
        let day = "2026-11-20".parse().unwrap();
        assert_eq!(lift_after(&line, day), None);
        line.tags = Hold { after: None, ..hold() }.tags();
        line.tags.extend(lift_after(&line, day).unwrap());
        assert_eq!(Hold::read(&line.tags), Some(Hold { after: Some(day), ..hold() }));
    }

    #[test]
    fn a_long_reason_is_cut_and_the_rest_still_reads() {
        let long = Hold { reason: "x".repeat(400), who: Some("w".repeat(100)), ..hold() };
        let read = Hold::read(&long.tags()).unwrap();
        assert_eq!((read.after, read.who.unwrap().len()), (hold().after, 64));
    }

    #[test]
    fn it_says_how_it_ends() {
        assert!(hold().to_string().ends_with("(automatic runs go on from 2026-12-01)"));
        assert!(Hold { after: None, ..hold() }.to_string().contains("rollback --lift-hold"));
    }
}
