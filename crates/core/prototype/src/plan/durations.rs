//! Expected durations of steps: measured from this pool's journals, or published.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::journal::{Entry, Event};
use crate::run::RunId;
use crate::step::Step;

/// The source of an expected duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DurationSource {
    /// The median of this many earlier runs.
    Measured(u32),
    /// kamino's walkthrough and logs from January 2021.
    Published,
    /// One or two short requests.
    Request,
    /// Not known in advance.
    Open,
}

/// The expected duration of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedDuration {
    /// Absent if it is not known.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub takes: Option<Duration>,
    pub source: DurationSource,
}

#[expect(clippy::ref_option, reason = "the signature that serde needs")]
fn seconds<S: Serializer>(takes: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    takes.map(|takes| takes.as_secs()).serialize(serializer)
}

/// Measured durations by step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    measured: BTreeMap<Step, Vec<Duration>>,
}

/// Seconds, the mean of two runs in kamino's logs. Its donor was away for 3 min 44 s; start and Ready are that time without stop and
/// snapshot.
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

/// The time until ten new nodes were Ready in kamino's walkthrough.
const NEW_NODES_READY: u64 = 210;

/// Starting two pods takes a few seconds each, and the snapshot as long as kamino's.
const LIVE_SNAPSHOT: u64 = 15;

/// One or two short requests, rounded up.
const REQUEST: u64 = 2;

impl Durations {
    /// Measures earlier runs: from the first start of a step until it was done. A step that was found done is not counted.
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

    /// The expected duration of a step.
    pub fn expected(&self, step: Step) -> ExpectedDuration {
        if let Some(took) = self.measured.get(&step) {
            let runs = u32::try_from(took.len()).unwrap_or(u32::MAX);
            return ExpectedDuration { takes: Some(took[took.len() / 2]), source: DurationSource::Measured(runs) };
        }
        let published = PUBLISHED.iter().find(|(known, _)| *known == step).map(|(_, seconds)| *seconds);
        let (seconds, source) = match (published, step) {
            (Some(seconds), _) => (Some(seconds), DurationSource::Published),
            (None, Step::AwaitCanary | Step::AddNodes) => (Some(NEW_NODES_READY), DurationSource::Published),
            // One snapshot, and the pods that freeze and check the donor.
            (None, Step::LiveSnapshot) => (Some(LIVE_SNAPSHOT), DurationSource::Request),
            // This depends on the pods.
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
    fn published_durations_add_up_to_the_published_absence() {
        let parts = [Step::PowerOff, Step::Snapshot, Step::Start, Step::AwaitReady];
        let none = Durations::default();
        let sum: Duration = parts.iter().filter_map(|step| none.expected(*step).takes).sum();
        assert_eq!(sum, Duration::from_secs(3 * 60 + 44));
    }

    #[test]
    fn measured_durations_replace_published_ones() {
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
    fn retries_count_from_the_first_attempt_and_the_median_is_used() {
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
    fn step_that_was_found_done_is_not_measured() {
        let durations = Durations::measured(&[succeeded("r1", 60, Step::Gallery)]);
        assert_eq!(durations.expected(Step::Gallery).source, DurationSource::Published);
    }

    #[test]
    fn duration_of_a_drain_is_unknown_before_the_first() {
        assert_eq!(Durations::default().expected(Step::Drain).takes, None);
        let durations = Durations::measured(&[started("r1", 0, Step::Drain), succeeded("r1", 42, Step::Drain)]);
        assert_eq!(durations.expected(Step::Drain).takes, Some(Duration::from_secs(42)));
    }
}
