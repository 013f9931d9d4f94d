//! What was read last of each scale set, and the jobs that change one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_types::error_chain::to_line;
use kiln_types::{InstanceId, PoolName, VersionNumber};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::prototypes::Runs;
use super::{ImageOptions, ImageReading};
use crate::Error;
use crate::operator::writes::Shared;

/// Between two attempts of a job that failed. Usually another process has the pool's lease.
const RETRY: Duration = Duration::from_secs(5);

/// The images of one leader. Dropping it ends its reads, jobs and runs.
pub(in crate::operator) struct Images {
    pub(super) shared: Arc<Shared>,
    pub(super) options: ImageOptions,
    pools: Arc<Mutex<BTreeMap<PoolName, Known>>>,
    pub(super) runs: Runs,
}

/// What is known of a scale set.
#[derive(Default)]
struct Known {
    reading: Option<Arc<ImageReading>>,
    error: Option<String>,
    due: Option<Instant>,
    task: Option<Task>,
    /// A job changed the pool, or is changing it, since it was read.
    is_stale: bool,
    obstacle: Option<String>,
    retry: Option<Instant>,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the images of a pool are known.
pub(in crate::operator) enum ImageState {
    /// The operator does not work with images.
    Off,
    /// It has not been read yet.
    Unread,
    Failed(String),
    Read {
        reading: Arc<ImageReading>,
        /// None while a job changes it.
        capacity: Option<i64>,
        obstacle: Option<String>,
    },
}

/// Changes of a scale set, in the order in which they are made.
#[derive(Debug, Default)]
pub(in crate::operator) struct Job {
    pub(in crate::operator) reject: Option<(VersionNumber, String)>,
    pub(in crate::operator) remove: Vec<InstanceId>,
    pub(in crate::operator) grow: Option<u32>,
}

impl Images {
    pub(in crate::operator) fn new(shared: Arc<Shared>, options: ImageOptions) -> Self {
        Self { shared, options, pools: Arc::default(), runs: Runs::default() }
    }

    /// The node that the operator runs on.
    pub(in crate::operator) fn own_node(&self) -> Option<&str> {
        self.options.work.own_node()
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<PoolName, Known>> {
        lock(&self.pools)
    }

    /// What is known of a scale set.
    pub(in crate::operator) fn state(&self, pool: &PoolName) -> ImageState {
        let pools = self.pools();
        let Some(known) = pools.get(pool) else { return ImageState::Unread };
        match (&known.reading, &known.error) {
            (_, Some(error)) => ImageState::Failed(error.clone()),
            (None, None) => ImageState::Unread,
            (Some(reading), None) => ImageState::Read {
                reading: reading.clone(),
                capacity: (!known.is_stale).then(|| i64::from(reading.reading.pool.capacity)),
                obstacle: known.obstacle.clone(),
            },
        }
    }

    /// Reads the scale sets that are due. `true` marks those that change. Returns when the next one is due.
    pub(in crate::operator) fn read_due(&self, wanted: &BTreeMap<PoolName, bool>) -> Option<Instant> {
        let now = Instant::now();
        let mut pools = self.pools();
        pools.retain(|pool, _| wanted.contains_key(pool));
        let mut next = None;
        for (pool, is_urgent) in wanted {
            let known = pools.entry(pool.clone()).or_default();
            let is_running = known.task.as_ref().is_some_and(|task| !task.0.is_finished());
            let interval = if *is_urgent { self.options.interval } else { self.options.idle };
            let due = known.due.map_or(now, |due| due.min(now + interval));
            if !is_running && due <= now {
                known.due = Some(now + interval);
                let (pools, pool, shared, work) =
                    (self.pools.clone(), pool.clone(), self.shared.clone(), self.options.work.clone());
                known.task = Some(Task(tokio::spawn(async move {
                    let read = work.read(&pool).await;
                    store(&pools, &pool, read);
                    shared.stores.changed.notify_one();
                })));
            }
            next = next.into_iter().chain([known.due.unwrap_or(now)]).min();
        }
        next
    }

    /// Reads a scale set in the next pass.
    pub(super) fn forget(&self, pool: &PoolName) {
        if let Some(known) = self.pools().get_mut(pool) {
            known.due = None;
        }
    }

    /// Starts a job, unless the pool is being read or changed. Every decision repeats it.
    pub(in crate::operator) fn start(&self, pool: &PoolName, job: Job) {
        let mut pools = self.pools();
        let known = pools.entry(pool.clone()).or_default();
        let is_running = known.task.as_ref().is_some_and(|task| !task.0.is_finished());
        let now = Instant::now();
        if is_running || known.retry.is_some_and(|retry| retry > now) {
            return;
        }
        known.is_stale = true;
        let (pools, pool, shared, work) =
            (self.pools.clone(), pool.clone(), self.shared.clone(), self.options.work.clone());
        known.task = Some(Task(tokio::spawn(async move {
            let done = async {
                if let Some((version, reason)) = &job.reject {
                    work.reject(&pool, version, reason).await?;
                }
                if !job.remove.is_empty() {
                    work.remove(&pool, &job.remove).await?;
                }
                if let Some(to) = job.grow {
                    work.grow(&pool, to).await?;
                }
                Ok::<_, Error>(())
            };
            let failed = done.await.err().map(|error| to_line(&error));
            if let Some(error) = &failed {
                let what = format!("change the machines of `{pool}`");
                (shared.options.report)(&crate::operator::OperatorEvent::Failed { what, error: error.clone() });
            }
            let read = work.read(&pool).await;
            if let Some(known) = lock(&pools).get_mut(&pool) {
                known.retry = failed.is_some().then(|| Instant::now() + RETRY);
                known.obstacle = failed;
            }
            store(&pools, &pool, read);
            shared.stores.changed.notify_one();
        })));
    }

    /// When a job that failed may be tried again.
    pub(in crate::operator) fn next_retry(&self) -> Option<Instant> {
        let now = Instant::now();
        self.pools().values().filter_map(|known| known.retry).filter(|retry| *retry > now).min()
    }
}

fn store(pools: &Mutex<BTreeMap<PoolName, Known>>, pool: &PoolName, read: Result<ImageReading, Error>) {
    let mut pools = lock(pools);
    let Some(known) = pools.get_mut(pool) else { return };
    match read {
        Ok(reading) => {
            (known.reading, known.error) = (Some(Arc::new(reading)), None);
            known.is_stale = false;
        }
        Err(error) => known.error = Some(to_line(&error)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
