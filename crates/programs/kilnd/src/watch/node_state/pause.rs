//! How long the listener waits before it tries again.

use std::time::Duration;

use kiln_types::hash::splitmix64;

use super::super::schedule::part;

/// After the first failed request. The API server restarts within seconds.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause during an outage.
const LONGEST: Duration = Duration::from_secs(30);
/// The first pause where the cluster has no NodeStates: most clusters never will.
const FIRST_ABSENT: Duration = Duration::from_mins(1);
/// The longest pause there. It is how long a node needs to notice that the cluster became a fleet.
const LONGEST_ABSENT: Duration = Duration::from_mins(5);

/// How many refusals in succession count as an outage, for a node that could read its NodeState before. An API server that starts refuses requests until it
/// has loaded its roles.
const REFUSALS: u32 = 5;

/// The pauses of one listener. They double, and half of each depends on the machine, so that nodes do not return together.
#[derive(Clone, Debug)]
pub(super) struct Pauses {
    seed: u64,
    turn: u64,
    failures: u32,
    absences: u32,
    refusals: u32,
    /// Whether any request has succeeded.
    has_succeeded: bool,
}

impl Pauses {
    /// No pause so far.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, turn: 0, failures: 0, absences: 0, refusals: 0, has_succeeded: false }
    }

    /// A request succeeded.
    pub(super) fn reset(&mut self) {
        (self.failures, self.absences, self.refusals, self.has_succeeded) = (0, 0, 0, true);
    }

    /// The pause after a request that failed.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures += 1;
        self.jittered(FIRST, LONGEST, self.failures)
    }

    /// The pause after the API server answered that it has no NodeStates.
    pub(super) fn absent(&mut self) -> Duration {
        self.absences += 1;
        self.jittered(FIRST_ABSENT, LONGEST_ABSENT, self.absences)
    }

    /// The pause after the API server refused a request.
    pub(super) fn refused(&mut self) -> Duration {
        if !self.has_succeeded || self.refusals >= REFUSALS {
            return self.absent();
        }
        self.refusals += 1;
        self.jittered(FIRST, LONGEST, self.refusals)
    }

    /// How many requests in succession failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// How many such answers came in succession.
    pub(super) fn absences(&self) -> u32 {
        self.absences
    }

    fn jittered(&mut self, first: Duration, longest: Duration, times: u32) -> Duration {
        self.turn += 1;
        let pause = first.saturating_mul(1 << (times - 1).min(16)).min(longest);
        pause / 2 + part(pause / 2, splitmix64(self.seed ^ self.turn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ_between_machines() {
        let pauses = |seed| {
            let mut pauses = Pauses::new(seed);
            (0..10).map(|_| pauses.failed()).collect::<Vec<_>>()
        };
        let (one, two) = (pauses(1), pauses(2));
        assert_ne!(one, two);
        assert!(one[0] >= FIRST / 2 && one[0] <= FIRST, "{one:?}");
        assert!(one[1..].iter().all(|pause| *pause >= FIRST && *pause <= LONGEST), "{one:?}");
        assert!(one[9] >= LONGEST / 2, "{one:?}");
        let mut absent = Pauses::new(3);
        assert!(absent.absent() >= FIRST_ABSENT / 2);
        assert!((0..5).map(|_| absent.absent()).all(|pause| pause <= LONGEST_ABSENT));
        assert_eq!((absent.absences(), absent.failures()), (6, 0));
        absent.reset();
        assert_eq!((absent.absences(), absent.failures()), (0, 0));
    }

    #[test]
    fn refusals_after_a_success_are_retried_like_an_outage_at_first() {
        let mut pauses = Pauses::new(1);
        assert!(pauses.refused() >= FIRST_ABSENT / 2, "the cluster may have no roles for nodes");
        pauses.reset();
        let early: Vec<Duration> = (0..REFUSALS).map(|_| pauses.refused()).collect();
        assert!(early[0] <= FIRST && early.iter().all(|pause| *pause <= LONGEST), "{early:?}");
        assert_eq!(pauses.absences(), 0);
        assert!(pauses.refused() >= FIRST_ABSENT / 2, "the permission was removed");
    }
}
