//! Requests with a limit in time, and how long a failing one is asked again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::{Instant, sleep, timeout};

use crate::Error;

/// The longest that the server works on one of our requests is an eviction whose budget is being written by others: it tries for 10 s.
/// What is silent for twice as long is a dead connection.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// How long a read or a write outlasts an outage. A control plane of one node that is upgraded is away for a minute or two; what is away
/// for longer needs a person, who sees the error sooner this way.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// How long after an outage a refusal is not believed: a server that starts has not read its roles yet and refuses everybody.
pub(crate) const ROLES_MAY_LACK: Duration = Duration::from_secs(30);

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Numbers from 0 to below 1 that spread the retries of many clients. They come from outside, so that a test knows them.
#[derive(Clone)]
pub struct Spread(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Spread {
    /// Takes the source of the numbers.
    pub fn new(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// No spread at all.
    pub fn none() -> Self {
        Self::new(|| 0.0)
    }

    /// Up to a quarter longer.
    pub(crate) fn over(&self, wait: Duration) -> Duration {
        wait.mul_f64(1.0 + (self.0)().clamp(0.0, 1.0) / 4.0)
    }
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spread")
    }
}

/// The time of day, for what people read. Nothing is decided by it.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Takes the clock.
    pub fn new(source: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

/// What a [`Cluster`] takes from outside.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Spreads retries.
    pub spread: Spread,
    /// Dates renewals of leases.
    pub clock: WallClock,
}

/// A cluster, by a client of its API server.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    pub(crate) options: ClusterOptions,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

/// One request, with a limit in time.
pub(crate) async fn once<T>(what: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match timeout(REQUEST_LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| Error::of(what, error)),
        Err(_) => Err(Error::Silent { what: what.to_owned(), after: REQUEST_LIMIT }),
    }
}

/// Tells a refusal by a server that has just come back from a real one.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    last: Option<Instant>,
}

impl Outage {
    /// Notes a failure and says whether to ask again.
    pub(crate) fn passes(&mut self, error: &Error, now: Instant) -> bool {
        if error.outage() {
            self.last = Some(now);
        }
        let recent = self.last.is_some_and(|last| now - last < ROLES_MAY_LACK);
        error.retryable() || (error.permission() && recent)
    }
}

impl Cluster {
    /// Speaks to a cluster by this client, which must not repeat requests by itself: see [`crate::connect`].
    pub fn new(client: Client, options: ClusterOptions) -> Self {
        Self { client, options }
    }

    /// Repeats a request that may be repeated until it is answered, refused, or the deadline is over.
    pub(crate) async fn persist<T, R>(
        &self,
        what: &str,
        deadline: Instant,
        mut request: impl FnMut() -> R,
    ) -> Result<T, Error>
    where
        R: Future<Output = kube::Result<T>>,
    {
        let mut outage = Outage::default();
        let mut failures = 0;
        loop {
            let error = match once(what, request()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = self.wait_after(failures, &error);
            failures += 1;
            let now = Instant::now();
            if !outage.passes(&error, now) || now + wait >= deadline {
                return Err(error);
            }
            sleep(wait).await;
        }
    }

    /// How long to wait after this many failures before the next try.
    pub(crate) fn wait_after(&self, failures: u32, error: &Error) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << failures.min(8)).min(LONGEST_WAIT);
        let asked = error.answer().and_then(|answer| answer.retry_after);
        self.options.spread.over(asked.map_or(doubled, |asked| asked.min(REQUEST_LIMIT)))
    }
}
