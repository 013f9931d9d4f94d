//! Polling with deadlines: the only code of this crate that reads the clock.

use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Calls `check` until it returns a value; `None` after `limit`.
pub(crate) fn poll<T>(
    every: Duration,
    limit: Duration,
    mut check: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let start = now();
    loop {
        if let Some(found) = check()? {
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
