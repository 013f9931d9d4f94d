//! When to send a request again.

use std::time::Duration;

use kiln_types::ErrorClass;
pub use kiln_types::Jitter;

/// How a class of failure is retried.
struct Rule {
    /// Failures of this class after which the request is given up.
    give_up_after: u32,
    first: Duration,
    longest: Duration,
}

/// A broken connection or a 5xx passes within seconds or lasts longer than a request should.
const TRANSIENT: Rule = Rule { give_up_after: 6, first: Duration::from_secs(1), longest: Duration::from_secs(16) };
/// Azure says how long to wait; a bucket that stays empty for ten such waits is another client's runaway loop.
const THROTTLED: Rule = Rule { give_up_after: 10, first: Duration::from_secs(2), longest: Duration::from_mins(1) };
/// Another write to a scale set or an instance ends within minutes: 40 x 15 s is ten of them. Whoever must wait for more, such as an image
/// version of an hour, waits for its handle.
const BUSY: Rule = Rule { give_up_after: 40, first: Duration::from_secs(5), longest: Duration::from_secs(15) };

/// How often a request failed so far, by the classes that are retried.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    transient: u32,
    throttled: u32,
    busy: u32,
}

impl Attempts {
    /// How many failures there were.
    pub(crate) fn failures(&self) -> u32 {
        self.transient + self.throttled + self.busy
    }

    /// Counts a failure and says how long to wait before the next attempt; `None` gives up.
    ///
    /// A throttled or refused request was not acted upon, so that any request may be sent again. After a broken connection or a 5xx nobody
    /// knows, so that only a repeatable one may. A lack of capacity is the caller's to judge: another zone or size may have some.
    pub(crate) fn next_wait(
        &mut self,
        class: ErrorClass,
        repeatable: bool,
        retry_after: Option<Duration>,
        jitter: &Jitter,
    ) -> Option<Duration> {
        let (count, rule) = match class {
            ErrorClass::Throttled => (&mut self.throttled, THROTTLED),
            ErrorClass::Busy => (&mut self.busy, BUSY),
            ErrorClass::Transient if repeatable => (&mut self.transient, TRANSIENT),
            _ => return None,
        };
        *count += 1;
        if *count >= rule.give_up_after {
            return None;
        }
        let doubled = rule.first.saturating_mul(1 << (*count - 1).min(16)).min(rule.longest);
        let base = retry_after.map_or(doubled, |asked| asked.max(Duration::from_millis(100)));
        Some(jitter.apply(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(class: ErrorClass, repeatable: bool, retry_after: Option<Duration>) -> Vec<u64> {
        let mut attempts = Attempts::default();
        std::iter::from_fn(|| attempts.next_wait(class, repeatable, retry_after, &Jitter::none()))
            .map(|d| u64::try_from(d.as_millis()).unwrap())
            .take(100)
            .collect()
    }

    #[test]
    fn a_broken_connection_is_retried_with_growing_waits_and_given_up() {
        assert_eq!(waits(ErrorClass::Transient, true, None), [1000, 2000, 4000, 8000, 16_000]);
        assert_eq!(waits(ErrorClass::Transient, false, None), Vec::<u64>::new());
    }

    #[test]
    fn throttling_waits_as_long_as_azure_says() {
        let asked = waits(ErrorClass::Throttled, false, Some(Duration::from_secs(37)));
        assert_eq!(asked, [37_000; 9]);
    }

    #[test]
    fn another_operation_is_waited_for_within_bounds() {
        let all = waits(ErrorClass::Busy, false, None);
        assert_eq!(all.len(), 39);
        assert_eq!(all[..3], [5000, 10_000, 15_000]);
    }

    #[test]
    fn what_would_fail_again_is_never_retried() {
        for class in [
            ErrorClass::Precondition,
            ErrorClass::Quota,
            ErrorClass::Capacity,
            ErrorClass::Invalid,
            ErrorClass::Permission,
            ErrorClass::NotFound,
            ErrorClass::StorageUnsupported,
            ErrorClass::Preempted,
        ] {
            assert_eq!(waits(class, true, Some(Duration::from_secs(1))), Vec::<u64>::new(), "{class:?}");
        }
    }

    #[test]
    fn jitter_only_makes_waits_longer() {
        let wait = |jitter| {
            Attempts::default().next_wait(
                ErrorClass::Throttled,
                true,
                Some(Duration::from_secs(8)),
                &Jitter::new(move || jitter),
            )
        };
        assert_eq!(wait(0.0), Some(Duration::from_secs(8)));
        assert_eq!(wait(1.0), Some(Duration::from_secs(10)));
        assert_eq!(wait(-5.0), Some(Duration::from_secs(8)));
    }
}
