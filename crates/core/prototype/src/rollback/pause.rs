//! A paused pool: no automatic run starts on it until a person unpauses it or a date is reached.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use kiln_types::tags::PAUSED_TAG;
use kiln_types::{ImageDefinition, Tags};
use serde::Serialize;

use crate::provenance::{shorten, tag_value};

/// Why and until when a pool is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    pub since: Option<Timestamp>,
    /// The first day on which automatic runs start again; without it, a person unpauses the pool.
    pub after: Option<Date>,
    /// The target of the rollback: a version, or `original`.
    pub to: Option<String>,
    pub who: Option<String>,
    pub reason: String,
}

impl Pause {
    /// Reads the tag of an image definition. Text that cannot be parsed is a pause too, since it was written for a reason.
    pub fn read(tags: &Tags) -> Option<Self> {
        let text = tag_value(tags, PAUSED_TAG)?;
        let mut pause = Self { since: None, after: None, to: None, who: None, reason: String::new() };
        let mut rest = text;
        loop {
            let (part, more) = rest.split_once("; ").unwrap_or((rest, ""));
            match part.split_once('=') {
                Some(("since", at)) => pause.since = at.parse().ok(),
                Some(("after", day)) => pause.after = day.parse().ok(),
                Some(("to", to)) => pause.to = Some(to.to_owned()),
                Some(("by", who)) => pause.who = Some(who.to_owned()),
                // The reason is last, because it may contain anything.
                Some(("because", _)) => {
                    rest["because=".len()..].clone_into(&mut pause.reason);
                    return Some(pause);
                }
                _ => {
                    rest.clone_into(&mut pause.reason);
                    return Some(pause);
                }
            }
            if more.is_empty() {
                return Some(pause);
            }
            rest = more;
        }
    }

    /// The tag that pauses the pool.
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
        Tags::from([(PAUSED_TAG.to_owned(), shorten(&text).to_owned())])
    }

    /// Whether the pool was rolled back to its original recipe.
    pub fn is_to_original(&self) -> bool {
        self.to.as_deref() == Some("original")
    }

    /// Whether automatic runs must not start on this day.
    pub fn is_active(&self, today: Date) -> bool {
        self.after.is_none_or(|day| today < day)
    }
}

/// The pause that was written between two reads of an image definition's tags.
pub fn new_pause(before: &Tags, now: &Tags) -> Option<Pause> {
    Pause::read(now).filter(|pause| Pause::read(before).as_ref() != Some(pause))
}

/// The tags that unpause a pool, if it is paused. Rejected versions stay rejected.
pub fn unpause(definition: &ImageDefinition) -> Option<Tags> {
    Pause::read(&definition.tags).map(|_| Tags::from([(PAUSED_TAG.to_owned(), String::new())]))
}

/// The tags that let a pause end on a day.
pub fn pause_until(definition: &ImageDefinition, day: Date) -> Option<Tags> {
    Pause::read(&definition.tags).map(|pause| Pause { after: Some(day), ..pause }.tags())
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("paused")?;
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        if let Some(who) = &self.who {
            write!(f, " by {who}")?;
        }
        if let Some(to) = &self.to {
            write!(f, ", rolled back to {to}")?;
        }
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        match self.after {
            Some(day) => write!(f, " (automatic runs start again on {day})"),
            None => f.write_str(" (end it with `kiln prototype rollback --unpause`)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{definition, tags};

    fn pause() -> Pause {
        Pause {
            since: Some("2026-11-16T00:10:00Z".parse().unwrap()),
            after: Some("2026-12-01".parse().unwrap()),
            to: Some("2026.11.08".into()),
            who: Some("alice".into()),
            reason: "kubelet crashes; by=design?".into(),
        }
    }

    #[test]
    fn pause_round_trips_through_its_tag_with_any_reason() {
        assert_eq!(Pause::read(&pause().tags()), Some(pause()));
        let bare = Pause { since: None, after: None, to: None, who: None, reason: String::new() };
        assert_eq!(Pause::read(&bare.tags()), Some(bare));
    }

    #[test]
    fn pause_written_by_hand_is_active() {
        let read = Pause::read(&tags([(PAUSED_TAG, "do not touch; ask bob")])).unwrap();
        assert_eq!(read.reason, "do not touch; ask bob");
        assert!(read.is_active("2099-01-01".parse().unwrap()));
    }

    #[test]
    fn pause_ends_on_its_day_or_never() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        assert!(pause().is_active(day("2026-11-30")));
        assert!(!pause().is_active(day("2026-12-01")));
        assert!(Pause { after: None, ..pause() }.is_active(day("2099-01-01")));
    }

    #[test]
    fn unpausing_empties_the_tag_of_a_paused_pool() {
        let mut definition = definition();
        assert_eq!(unpause(&definition), None);
        definition.tags = pause().tags();
        definition.tags.extend(unpause(&definition).unwrap());
        assert_eq!(Pause::read(&definition.tags), None);
    }

    #[test]
    fn pause_is_new_if_it_was_not_there_before() {
        let (old, none) = (Pause { reason: "earlier".into(), ..pause() }.tags(), Tags::new());
        assert_eq!(new_pause(&none, &pause().tags()), Some(pause()));
        assert_eq!(new_pause(&old, &pause().tags()), Some(pause()));
        assert_eq!(new_pause(&pause().tags(), &pause().tags()), None);
        assert_eq!(new_pause(&pause().tags(), &none), None);
    }

    #[test]
    fn end_of_a_pause_can_be_set_later() {
        let mut definition = definition();
        let day = "2026-11-20".parse().unwrap();
        assert_eq!(pause_until(&definition, day), None);
        definition.tags = Pause { after: None, ..pause() }.tags();
        definition.tags.extend(pause_until(&definition, day).unwrap());
        assert_eq!(Pause::read(&definition.tags), Some(Pause { after: Some(day), ..pause() }));
    }

    #[test]
    fn long_reason_is_cut_and_the_rest_is_kept() {
        let long = Pause { reason: "x".repeat(400), who: Some("w".repeat(100)), ..pause() };
        let read = Pause::read(&long.tags()).unwrap();
        assert_eq!((read.after, read.who.unwrap().len()), (pause().after, 64));
    }

    #[test]
    fn text_says_how_the_pause_ends() {
        assert!(pause().to_string().ends_with("(automatic runs start again on 2026-12-01)"));
        assert!(Pause { after: None, ..pause() }.to_string().contains("rollback --unpause"));
    }
}
