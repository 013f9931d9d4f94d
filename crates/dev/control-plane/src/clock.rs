//! The one place here that asks for the time: deadlines of waiting.

use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Asks `look` until it answers or the time is over; then `None`.
pub(crate) fn poll<T>(
    every: Duration,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let start = now();
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if now().duration_since(start) > limit {
            return Ok(None);
        }
        thread::sleep(every);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
fn now() -> Instant {
    Instant::now()
}
