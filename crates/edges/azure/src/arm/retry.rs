//! Retry rules.

use std::time::Duration;

use kiln_types::ErrorClass;
pub use kiln_types::Jitter;

/// The retry rule for a class of failures.
struct Rule {
    /// The number of failures after which the request fails.
    give_up_after: u32,
    first: Duration,
    longest: Duration,
}

/// A broken connection or a 5xx either passes within seconds or lasts longer than a request should.
const TRANSIENT: Rule = Rule { give_up_after: 6, first: Duration::from_secs(1), longest: Duration::from_secs(16) };
/// Azure names the wait. If ten waits do not help, another client is using up the whole rate limit.
const THROTTLED: Rule = Rule { give_up_after: 10, first: Duration::from_secs(2), longest: Duration::from_mins(1) };
/// Another write to a scale set or instance ends within minutes; 40 x 15 s is ten minutes. Longer operations, such as an image version that
/// takes an hour, are awaited by their handle.
const BUSY: Rule = Rule { give_up_after: 40, first: Duration::from_secs(5), longest: Duration::from_secs(15) };

/// The failures of a request so far, by retryable class.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    transient: u32,
    throttled: u32,
    busy: u32,
}

impl Attempts {
    /// Returns the total number of failures.
    pub(crate) fn failures(&self) -> u32 {
        self.transient + self.throttled + self.busy
    }

    /// Counts a failure and returns the wait before the next attempt, or `None` to give up.
    ///
    /// A throttled or conflicting request was not executed, so any request may be retried. After a broken connection or a 5xx the outcome
    /// is unknown, so only an idempotent request may be retried. Lack of capacity is left to the caller, which may choose another zone or
    /// size.
    pub(crate) fn next_wait(
        &mut self,
        class: ErrorClass,
        idempotent: bool,
        retry_after: Option<Duration>,
        jitter: &Jitter,
    ) -> Option<Duration> {
        let (count, rule) = match class {
            ErrorClass::Throttled => (&mut self.throttled, THROTTLED),
            ErrorClass::Busy => (&mut self.busy, BUSY),
            ErrorClass::Transient if idempotent => (&mut self.transient, TRANSIENT),
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

    fn waits(class: ErrorClass, idempotent: bool, retry_after: Option<Duration>) -> Vec<u64> {
        let mut attempts = Attempts::default();
        std::iter::from_fn(|| attempts.next_wait(class, idempotent, retry_after, &Jitter::none()))
            .map(|d| u64::try_from(d.as_millis()).unwrap())
            .take(100)
            .collect()
    }

    #[test]
    fn broken_connections_are_retried_with_backoff_up_to_a_limit() {
        assert_eq!(waits(ErrorClass::Transient, true, None), [1000, 2000, 4000, 8000, 16_000]);
        assert_eq!(waits(ErrorClass::Transient, false, None), Vec::<u64>::new());
    }

    #[test]
    fn throttled_requests_wait_as_long_as_retry_after() {
        let asked = waits(ErrorClass::Throttled, false, Some(Duration::from_secs(37)));
        assert_eq!(asked, [37_000; 9]);
    }

    #[test]
    fn busy_resources_are_retried_up_to_a_limit() {
        let all = waits(ErrorClass::Busy, false, None);
        assert_eq!(all.len(), 39);
        assert_eq!(all[..3], [5000, 10_000, 15_000]);
    }

    #[test]
    fn permanent_failures_are_not_retried() {
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
    fn jitter_never_shortens_a_wait() {
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
