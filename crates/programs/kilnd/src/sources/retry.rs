//! Retry rules for services of the host.

use std::time::Duration;

use kiln_types::hash::splitmix64;

/// The first pause. A longer one would delay the boot noticeably, because the service normally answers within milliseconds.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause, so that a boot continues soon after the service has recovered.
const LONGEST: Duration = Duration::from_secs(5);
/// How long to wait for a network change without a route. Then kilnd tries anyway, because it may have missed the event.
const NO_ROUTE: Duration = Duration::from_secs(1);
/// Limit for `Retry-After`: a wrong header must not stop a node for an hour.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The retry rules of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Status codes that are retried.
    pub retried: &'static [u16],
    /// When to give up.
    pub deadline: Duration,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status {
        status: u16,
        /// From the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// The machine has no route to the service.
    NoRoute,
    /// The connection was refused or broken.
    Broken,
}

/// The decision after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Use the response.
    Accept,
    /// A retry does not help.
    Refuse,
    /// The deadline has passed.
    GiveUp,
    /// Retry after a pause.
    After(Duration),
    /// Retry when the network changes, or after this time.
    OnNetwork(Duration),
}

impl Rules {
    /// The metadata service. Its restarts take three minutes at the 90th percentile.
    pub const IMDS: Self = Self { retried: &[400, 404, 410, 429, 500, 503], deadline: Duration::from_mins(5) };
    /// The wire server. Azure waits twenty minutes for the report.
    pub const WIRE: Self = Self { retried: &[429, 500, 503], deadline: Duration::from_mins(20) };

    /// A single attempt, for callers that retry themselves.
    #[must_use]
    pub fn once(self) -> Self {
        Self { deadline: Duration::ZERO, ..self }
    }

    /// With a shorter deadline.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }

    /// Decides what to do after an attempt. `attempt` counts from 1; `seed` spreads machines that start together.
    pub fn next(&self, attempt: u32, elapsed: Duration, outcome: Outcome, seed: u64) -> Next {
        let pause = match outcome {
            Outcome::Status { status: 200..=299, .. } => return Next::Accept,
            Outcome::Status { status, .. } if !self.retried.contains(&status) => return Next::Refuse,
            Outcome::Status { retry_after: Some(time), .. } => time.min(LONGEST_RETRY_AFTER).max(FIRST),
            Outcome::Status { .. } | Outcome::Broken => jittered(attempt, seed),
            Outcome::NoRoute => NO_ROUTE,
        };
        let Some(left) = self.deadline.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
            return Next::GiveUp;
        };
        let pause = pause.min(left);
        // Without a response, the network may not have been ready.
        if matches!(outcome, Outcome::NoRoute | Outcome::Broken) { Next::OnNetwork(pause) } else { Next::After(pause) }
    }
}

/// Exponential backoff with half of the pause as jitter.
fn jittered(attempt: u32, seed: u64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST);
    let half = doubled / 2;
    let steps = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_millis(splitmix64(seed ^ u64::from(attempt)) % steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Outcome {
        Outcome::Status { status, retry_after: None }
    }

    #[test]
    fn status_codes_are_retried_or_refused() {
        for code in [400, 404, 410, 429, 500, 503] {
            assert!(matches!(Rules::IMDS.next(1, Duration::ZERO, status(code), 0), Next::After(_)), "{code}");
        }
        for code in [301, 401, 403, 405, 418, 501] {
            assert_eq!(Rules::IMDS.next(1, Duration::ZERO, status(code), 0), Next::Refuse, "{code}");
        }
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, status(200), 0), Next::Accept);
        assert_eq!(Rules::WIRE.next(1, Duration::ZERO, status(404), 0), Next::Refuse);
    }

    #[test]
    fn pauses_double_up_to_the_limit_and_differ_between_machines() {
        let pause = |attempt, seed| match Rules::IMDS.next(attempt, Duration::ZERO, Outcome::Broken, seed) {
            Next::OnNetwork(pause) => pause,
            other => panic!("{other:?}"),
        };
        for seed in 0..50 {
            assert!((FIRST / 2..=FIRST).contains(&pause(1, seed)));
            assert!((LONGEST / 2..=LONGEST).contains(&pause(40, seed)));
        }
        assert_ne!(pause(10, 1), pause(10, 2));
        assert!(pause(3, 7) > pause(1, 7));
    }

    #[test]
    fn retry_after_is_honoured_within_limits() {
        let retry_after = |seconds| Outcome::Status { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, retry_after(7), 0), Next::After(Duration::from_secs(7)));
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, retry_after(0), 0), Next::After(FIRST));
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, retry_after(9000), 0), Next::After(LONGEST_RETRY_AFTER));
    }

    #[test]
    fn missing_route_waits_for_the_network() {
        assert_eq!(Rules::IMDS.next(9, Duration::ZERO, Outcome::NoRoute, 0), Next::OnNetwork(NO_ROUTE));
        assert!(matches!(Rules::IMDS.next(9, Duration::ZERO, Outcome::Broken, 0), Next::OnNetwork(_)));
        assert!(matches!(Rules::IMDS.next(9, Duration::ZERO, status(503), 0), Next::After(_)));
    }

    #[test]
    fn pauses_end_at_the_deadline() {
        let late = Rules::IMDS.deadline.checked_sub(Duration::from_millis(10)).expect("a deadline");
        assert_eq!(Rules::IMDS.next(9, late, Outcome::Broken, 0), Next::OnNetwork(Duration::from_millis(10)));
        assert_eq!(Rules::IMDS.next(9, Rules::IMDS.deadline, Outcome::Broken, 0), Next::GiveUp);
        assert_eq!(Rules::IMDS.next(9, Rules::IMDS.deadline, status(403), 0), Next::Refuse);
        assert_eq!(Rules::IMDS.once().next(1, Duration::ZERO, Outcome::Broken, 0), Next::GiveUp);
    }
}
