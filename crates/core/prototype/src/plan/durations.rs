//! How long steps usually take: as published, or as this pool's own journals say.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::journal::{Entry, Event};
use crate::run::RunId;
use crate::step::Step;

/// Where a duration comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DurationSource {
    /// So many earlier runs; the middle one of them.
    Measured(u32),
    /// kamino's walkthrough and logs of January 2021.
    Published,
    /// One or two ordinary requests.
    Request,
    /// Nobody can say before.
    Open,
}

/// How long a step usually takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedDuration {
    /// So long; none where nobody can say.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub takes: Option<Duration>,
    /// Says who.
    pub source: DurationSource,
}

#[expect(clippy::ref_option, reason = "serde asks for this signature")]
fn seconds<S: Serializer>(takes: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    takes.map(|takes| takes.as_secs()).serialize(serializer)
}

/// Durations by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    measured: BTreeMap<Step, Vec<Duration>>,
}

/// Seconds, from kamino's logs of two runs: where it has two figures, their mean. Its donor was away for 3 min 44 s; of these, what stop and
/// snapshot leave is start and Ready.
const PUBLISHED: [(Step, u64); 8] = [
    (Step::Gallery, 34),
    (Step::Definition, 33),
    (Step::PowerOff, 168),
    (Step::Snapshot, 6),
    (Step::Start, 10),
    (Step::AwaitReady, 40),
    (Step::Publish, 5779),
    (Step::Model, 13),
];

/// What ten new nodes of kamino's walkthrough took until they were Ready.
const NEW_NODES_READY: u64 = 210;

/// A request or two that Azure answers at once, rounded up.
const REQUEST: u64 = 2;

impl Durations {
    /// What journals of earlier runs tell: from the first time that a step was begun until it was done. A step that was found done without
    /// having been begun tells nothing.
    pub fn measured<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut begun: BTreeMap<(&RunId, Step), Timestamp> = BTreeMap::new();
        let mut measured: BTreeMap<Step, Vec<Duration>> = BTreeMap::new();
        for entry in entries {
            match &entry.event {
                Event::Started { step, .. } => _ = begun.entry((&entry.run, *step)).or_insert(entry.at),
                Event::Succeeded { step, .. } => {
                    let took = begun.remove(&(&entry.run, *step)).map(|at| entry.at.duration_since(at).unsigned_abs());
                    measured.entry(*step).or_default().extend(took);
                }
                _ => {}
            }
        }
        for took in measured.values_mut() {
            took.sort_unstable();
        }
        measured.retain(|_, took| !took.is_empty());
        Self { measured }
    }

    /// How long a step usually takes.
    pub fn expected(&self, step: Step) -> ExpectedDuration {
        if let Some(took) = self.measured.get(&step) {
            let runs = u32::try_from(took.len()).unwrap_or(u32::MAX);
            return ExpectedDuration { takes: Some(took[took.len() / 2]), source: DurationSource::Measured(runs) };
        }
        let published = PUBLISHED.iter().find(|(known, _)| *known == step).map(|(_, seconds)| *seconds);
        let (seconds, source) = match (published, step) {
            (Some(seconds), _) => (Some(seconds), DurationSource::Published),
            (None, Step::AwaitCanary | Step::AddNodes) => (Some(NEW_NODES_READY), DurationSource::Published),
            // Pods leave when they leave.
            (None, Step::Drain) => (None, DurationSource::Open),
            (None, _) => (Some(REQUEST), DurationSource::Request),
        };
        ExpectedDuration { takes: seconds.map(Duration::from_secs), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(run: &str, second: i64, event: Event) -> Entry {
        Entry { run: run.parse().unwrap(), at: Timestamp::from_second(second).unwrap(), event }
    }

    fn started(run: &str, second: i64, step: Step) -> Entry {
        entry(run, second, Event::Started { step, memo: None })
    }

    fn succeeded(run: &str, second: i64, step: Step) -> Entry {
        entry(run, second, Event::Succeeded { step, output: None })
    }

    #[test]
    fn the_published_parts_of_the_donors_absence_add_up_to_the_published_whole() {
        let parts = [Step::PowerOff, Step::Snapshot, Step::Start, Step::AwaitReady];
        let none = Durations::default();
        let sum: Duration = parts.iter().filter_map(|step| none.expected(*step).takes).sum();
        assert_eq!(sum, Duration::from_secs(3 * 60 + 44));
    }

    #[test]
    fn measured_times_take_the_place_of_published_ones() {
        let journal = [
            started("r1", 0, Step::PowerOff),
            started("r2", 5, Step::PowerOff),
            succeeded("r1", 30, Step::PowerOff),
            succeeded("r2", 95, Step::PowerOff),
        ];
        let durations = Durations::measured(&journal);
        let expected = durations.expected(Step::PowerOff);
        assert_eq!(
            expected,
            ExpectedDuration { takes: Some(Duration::from_secs(90)), source: DurationSource::Measured(2) }
        );
        assert_eq!(durations.expected(Step::Publish).source, DurationSource::Published);
    }

    #[test]
    fn retries_count_from_the_first_try_and_the_middle_run_counts() {
        let mut journal = vec![
            started("r1", 0, Step::Snapshot),
            started("r1", 50, Step::Snapshot),
            succeeded("r1", 60, Step::Snapshot),
        ];
        for (run, took) in [("r2", 4), ("r3", 6)] {
            journal.extend([started(run, 100, Step::Snapshot), succeeded(run, 100 + took, Step::Snapshot)]);
        }
        assert_eq!(Durations::measured(&journal).expected(Step::Snapshot).takes, Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_step_that_was_found_done_tells_nothing() {
        let durations = Durations::measured(&[succeeded("r1", 60, Step::Gallery)]);
        assert_eq!(durations.expected(Step::Gallery).source, DurationSource::Published);
    }

    #[test]
    fn nobody_can_say_how_long_a_drain_takes_before_the_first() {
        assert_eq!(Durations::default().expected(Step::Drain).takes, None);
        let durations = Durations::measured(&[started("r1", 0, Step::Drain), succeeded("r1", 42, Step::Drain)]);
        assert_eq!(durations.expected(Step::Drain).takes, Some(Duration::from_secs(42)));
    }
}
