//! Jitter for retries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Random numbers in `0.0..1.0` that delay retries, so that many clients do not retry at the same time. The source is an argument so that
/// tests can fix it.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    /// Uses `source` for the numbers.
    pub fn new(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// No delay.
    pub fn none() -> Self {
        Self::new(|| 0.0)
    }

    /// Adds up to a quarter to `wait`, so that a requested wait is never cut short.
    pub fn apply(&self, wait: Duration) -> Duration {
        wait.mul_f64(1.0 + (self.0)().clamp(0.0, 1.0) / 4.0)
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}
