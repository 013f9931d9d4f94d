//! Requests with a timeout, and how long a failing request is retried.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kiln_types::Jitter;
use kube::Client;
use tokio::time::{Instant, sleep, timeout};

use crate::Error;

/// The slowest of our requests is an eviction whose budget other clients update at the same time: the server retries for 10 s.
/// After twice that time the connection is considered dead.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// How long a read or a write is retried during an outage. Upgrading a single-node control plane takes a minute or two; a longer outage
/// needs a person, who then sees the error sooner.
pub(crate) const RETRY_FOR: Duration = Duration::from_mins(3);

/// How long after an outage a 403 is retried: an API server that has just started rejects every request until it has loaded its roles.
pub(crate) const ROLES_LOAD_WITHIN: Duration = Duration::from_secs(30);

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The time of day, for timestamps that people read. No decision depends on it.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl WallClock {
    /// Uses `source` as the clock.
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

/// Sources of randomness and time of a [`Cluster`].
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub jitter: Jitter,
    /// Timestamps of lease renewals and events.
    pub clock: WallClock,
}

/// A cluster, reached through a client of its API server.
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

/// Sends one request with a timeout.
pub(crate) async fn once<T>(action: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match timeout(REQUEST_LIMIT, request).await {
        Ok(answer) => answer.map_err(|error| Error::from_kube(action, error)),
        Err(_) => Err(Error::Timeout { action: action.to_owned(), after: REQUEST_LIMIT }),
    }
}

/// Distinguishes a 403 of an API server that has just restarted from a real one.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    last: Option<Instant>,
}

impl Outage {
    /// Records a failure and returns whether a retry can help.
    pub(crate) fn should_retry(&mut self, error: &Error, now: Instant) -> bool {
        if error.is_outage() {
            self.last = Some(now);
        }
        let recent = self.last.is_some_and(|last| now - last < ROLES_LOAD_WITHIN);
        error.is_retryable() || (error.is_forbidden() && recent)
    }
}

impl Cluster {
    /// Uses this client, which must not retry by itself: see [`crate::connect`].
    pub fn new(client: Client, options: ClusterOptions) -> Self {
        Self { client, options }
    }

    /// The client, for requests that this crate does not have.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request once, with the time limit that every request has.
    pub async fn send<T>(&self, action: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        once(action, request).await
    }

    /// Retries a request until it succeeds, fails permanently, or the deadline has passed.
    pub(crate) async fn retry<T, R>(
        &self,
        action: &str,
        deadline: Instant,
        mut request: impl FnMut() -> R,
    ) -> Result<T, Error>
    where
        R: Future<Output = kube::Result<T>>,
    {
        let mut outage = Outage::default();
        let mut failures = 0;
        loop {
            let error = match once(action, request()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let wait = self.wait_after(failures, &error);
            failures += 1;
            let now = Instant::now();
            if !outage.should_retry(&error, now) || now + wait >= deadline {
                return Err(error);
            }
            sleep(wait).await;
        }
    }

    /// The wait before the next attempt, after this many failures.
    pub(crate) fn wait_after(&self, failures: u32, error: &Error) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << failures.min(8)).min(LONGEST_WAIT);
        let requested = error.status().and_then(|status| status.retry_after);
        self.options.jitter.apply(requested.map_or(doubled, |requested| requested.min(REQUEST_LIMIT)))
    }
}
