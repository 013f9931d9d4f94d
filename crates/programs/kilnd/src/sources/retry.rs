//! When a service is asked again.

use std::time::Duration;

/// The first pause. A service on the same host answers in milliseconds; a longer one would be seen in the boot.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause. Longer ones would be seen in the boot when the service comes back.
const LONGEST: Duration = Duration::from_secs(5);
/// How long a machine without a route listens for a change before it tries again anyway: an event may have come before anybody listened.
const DEAF: Duration = Duration::from_secs(1);
/// The longest that a service may ask for: a wrong header must not stop a node for an hour.
const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// Which answers a service gives while it is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Statuses after which asking again may help.
    pub retried: &'static [u16],
    /// How long to go on.
    pub deadline: Duration,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status {
        status: u16,
        /// What the service asks for.
        retry_after: Option<Duration>,
    },
    /// The machine has no route to the service.
    NoRoute,
    /// There was a connection, or none was accepted, or it broke.
    Broken,
}

/// What to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Take the answer.
    Take,
    /// Asking again does not help.
    Refuse,
    /// The deadline is over.
    GiveUp,
    /// Ask again after this time.
    After(Duration),
    /// Ask again when the network changes, and after this time anyway.
    OnNetwork(Duration),
}

impl Rules {
    /// The metadata service. The service's own restarts take three minutes at the 90th percentile, so five.
    pub const IMDS: Self = Self { retried: &[400, 404, 410, 429, 500, 503], deadline: Duration::from_mins(5) };
    /// The wire server. Azure itself waits twenty minutes for the report.
    pub const WIRE: Self = Self { retried: &[429, 500, 503], deadline: Duration::from_mins(20) };

    /// One attempt, for those who ask again by themselves.
    #[must_use]
    pub fn once(self) -> Self {
        Self { deadline: Duration::ZERO, ..self }
    }

    /// For no longer than this.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }

    /// What to do after an attempt. `attempt` counts from 1; `chance` makes machines that start together ask apart.
    pub fn next(&self, attempt: u32, elapsed: Duration, outcome: Outcome, chance: u64) -> Next {
        let pause = match outcome {
            Outcome::Status { status: 200..=299, .. } => return Next::Take,
            Outcome::Status { status, .. } if !self.retried.contains(&status) => return Next::Refuse,
            Outcome::Status { retry_after: Some(asked), .. } => asked.min(LONGEST_ASKED).max(FIRST),
            Outcome::Status { .. } | Outcome::Broken => jittered(attempt, chance),
            Outcome::NoRoute => DEAF,
        };
        let Some(left) = self.deadline.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
            return Next::GiveUp;
        };
        let pause = pause.min(left);
        // Who was not even answered may have asked before the network was whole.
        if matches!(outcome, Outcome::NoRoute | Outcome::Broken) { Next::OnNetwork(pause) } else { Next::After(pause) }
    }
}

/// Twice as long each time, of which the second half is chance.
fn jittered(attempt: u32, chance: u64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST);
    let half = doubled / 2;
    let steps = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_millis(mix(chance ^ u64::from(attempt)) % steps)
}

/// Spreads numbers that are near each other (splitmix64).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Outcome {
        Outcome::Status { status, retry_after: None }
    }

    #[test]
    fn each_status_has_its_rule() {
        for code in [400, 404, 410, 429, 500, 503] {
            assert!(matches!(Rules::IMDS.next(1, Duration::ZERO, status(code), 0), Next::After(_)), "{code}");
        }
        for code in [301, 401, 403, 405, 418, 501] {
            assert_eq!(Rules::IMDS.next(1, Duration::ZERO, status(code), 0), Next::Refuse, "{code}");
        }
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, status(200), 0), Next::Take);
        assert_eq!(Rules::WIRE.next(1, Duration::ZERO, status(404), 0), Next::Refuse);
    }

    #[test]
    fn pauses_double_up_to_five_seconds_and_differ_between_machines() {
        let pause = |attempt, chance| match Rules::IMDS.next(attempt, Duration::ZERO, Outcome::Broken, chance) {
            Next::OnNetwork(pause) => pause,
            other => panic!("{other:?}"),
        };
        for chance in 0..50 {
            assert!((FIRST / 2..=FIRST).contains(&pause(1, chance)));
            assert!((LONGEST / 2..=LONGEST).contains(&pause(40, chance)));
        }
        assert_ne!(pause(10, 1), pause(10, 2));
        assert!(pause(3, 7) > pause(1, 7));
    }

    #[test]
    fn what_the_service_asks_for_is_honoured_within_reason() {
        let asked = |seconds| Outcome::Status { status: 429, retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, asked(7), 0), Next::After(Duration::from_secs(7)));
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, asked(0), 0), Next::After(FIRST));
        assert_eq!(Rules::IMDS.next(1, Duration::ZERO, asked(9000), 0), Next::After(LONGEST_ASKED));
    }

    #[test]
    fn without_a_route_the_network_is_waited_for() {
        assert_eq!(Rules::IMDS.next(9, Duration::ZERO, Outcome::NoRoute, 0), Next::OnNetwork(DEAF));
        assert!(matches!(Rules::IMDS.next(9, Duration::ZERO, Outcome::Broken, 0), Next::OnNetwork(_)));
        assert!(matches!(Rules::IMDS.next(9, Duration::ZERO, status(503), 0), Next::After(_)));
    }

    #[test]
    fn no_pause_reaches_past_the_deadline_and_then_it_is_over() {
        let late = Rules::IMDS.deadline.checked_sub(Duration::from_millis(10)).expect("a deadline");
        assert_eq!(Rules::IMDS.next(9, late, Outcome::Broken, 0), Next::OnNetwork(Duration::from_millis(10)));
        assert_eq!(Rules::IMDS.next(9, Rules::IMDS.deadline, Outcome::Broken, 0), Next::GiveUp);
        assert_eq!(Rules::IMDS.next(9, Rules::IMDS.deadline, status(403), 0), Next::Refuse);
        assert_eq!(Rules::IMDS.once().next(1, Duration::ZERO, Outcome::Broken, 0), Next::GiveUp);
    }
}
