//! The simulated clock. It runs `factor` times as fast as the wall clock, or jumps from event to event.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

/// The speed of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub enum Speed {
    /// Simulated seconds per real second.
    Factor(f64),
    /// No waiting: before each request everything in progress is finished, and the clock is set to that time.
    Instant,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "instant" {
            return Ok(Self::Instant);
        }
        match text.parse::<f64>() {
            Ok(factor) if factor.is_finite() && factor > 0.0 && factor <= 1e6 => Ok(Self::Factor(factor)),
            _ => Err(format!("`{text}` is not `instant` or a factor above 0 and at most 1000000")),
        }
    }
}

/// The source of simulated time. It uses tokio's clock, so a paused runtime pauses the simulation too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    speed: Speed,
    origin: Timestamp,
    started: tokio::time::Instant,
}

impl Clock {
    /// Creates a clock that shows `origin` now.
    pub(crate) fn new(speed: Speed, origin: Timestamp) -> Self {
        Self { speed, origin, started: tokio::time::Instant::now() }
    }

    /// Simulated time, or `None` if events move the clock.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        match self.speed {
            Speed::Instant => None,
            Speed::Factor(factor) => {
                Some(self.origin + SignedDuration::from_secs_f64(self.started.elapsed().as_secs_f64() * factor))
            }
        }
    }

    /// Wall time, for values that clients compare with their own clock, such as the lifetime of a token.
    pub(crate) fn wall(&self, wall_origin: Timestamp) -> Timestamp {
        wall_origin + SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX)
    }

    /// The real seconds in which this much simulated time passes.
    pub(crate) fn real_seconds(&self, world: SignedDuration) -> f64 {
        match self.speed {
            Speed::Instant => 0.0,
            Speed::Factor(factor) => world.as_secs_f64().max(0.0) / factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_runs_by_the_factor() {
        let origin = Timestamp::UNIX_EPOCH;
        let clock = Clock::new(Speed::Factor(60.0), origin);
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        assert_eq!(clock.now(), Some(origin + SignedDuration::from_secs(120)));
    }

    #[test]
    fn speed_is_a_positive_factor_or_instant() {
        assert_eq!("instant".parse(), Ok(Speed::Instant));
        assert_eq!("2.5".parse(), Ok(Speed::Factor(2.5)));
        for bad in ["0", "-1", "nan", "inf", "fast", "", "1e9"] {
            assert!(bad.parse::<Speed>().is_err(), "{bad}");
        }
    }
}
