//! Drains in the background, one task per node.
//!
//! A drain has no state that must survive: the hold on the node records its owner and its begin. An operator that finds a hold
//! without a task starts the drain again, and evicts only what is still there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::Effect;
use kiln_kubernetes::drain::{DrainError, DrainOptions};
use kiln_kubernetes::{Error, HoldScope, KuredAttempt, NodeName, Owner};
use kiln_rollout::DrainState;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::writes::Shared;

/// Between two attempts to get kured's lock or a node that another run holds. Both are held for minutes.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(10);
/// A drain fails this long before the limit of the policy, because its error names the pods, and that of the limit does not.
const BEFORE_LIMIT: SignedDuration = SignedDuration::from_secs(5);
/// A drain that is continued after its limit looks at the pods once more, to name those that are left.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a cancelled drain may take to end a write.
const CANCEL_WITHIN: Duration = Duration::from_secs(20);

/// The drains of one leader. Dropping it ends all of them; the holds stay for the next leader.
pub(super) struct Drains {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    tasks: Mutex<BTreeMap<String, Task>>,
}

struct Task {
    owner: Owner,
    since: Timestamp,
    effect: Option<Effect>,
    cancel: watch::Sender<bool>,
    handle: JoinHandle<()>,
    outcome: Arc<Mutex<Option<Result<(), String>>>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// A drain to start.
pub(super) struct DrainRequest {
    pub(super) node: NodeName,
    pub(super) owner: Owner,
    /// When the node was held, or now.
    pub(super) since: Timestamp,
    pub(super) limit: SignedDuration,
    /// The effect that the node is drained for.
    pub(super) effect: Option<Effect>,
}

impl Drains {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let permits = Arc::new(Semaphore::new(shared.options.parallel_drains.get()));
        Self { shared, permits, tasks: Mutex::default() }
    }

    fn tasks(&self) -> MutexGuard<'_, BTreeMap<String, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of an owner's drain; `None` if this leader has not started it.
    pub(super) fn state(&self, node: &str, owner: &Owner) -> Option<DrainState> {
        let tasks = self.tasks();
        let task = tasks.get(node).filter(|task| task.owner == *owner)?;
        let outcome = task.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match &*outcome {
            None => DrainState::Running { since: task.since },
            Some(Ok(())) => DrainState::Done,
            Some(Err(reason)) => DrainState::Failed { reason: reason.clone() },
        })
    }

    /// Starts a drain, unless the owner's drain has been started.
    pub(super) fn start(&self, request: DrainRequest) {
        let node = request.node.to_string();
        let mut tasks = self.tasks();
        if tasks.get(&node).is_some_and(|task| task.owner == request.owner) {
            return;
        }
        let (cancel, cancelled) = watch::channel(false);
        let outcome = Arc::new(Mutex::new(None));
        let (owner, since, effect) = (request.owner.clone(), request.since, request.effect);
        let (shared, permits, result) = (self.shared.clone(), self.permits.clone(), outcome.clone());
        let handle = tokio::spawn(async move {
            let mut cancelled = cancelled;
            let permit = tokio::select! {
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled) => return,
                permit = permits.acquire_owned() => permit,
            };
            let running = Running::new(&shared);
            let done = run(&shared, &request, cancelled).await;
            drop((running, permit));
            let label = if done.is_ok() { "done" } else { "failed" };
            shared.metrics.add("kiln_drains_total", &[label], 1.0);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            shared.stores.changed.notify_one();
        });
        tasks.insert(node, Task { owner, since, effect, cancel, handle, outcome });
    }

    /// Ends an owner's drain, so that none of its writes arrives after the release. Returns its begin and the effect that it was started for.
    pub(super) async fn end(&self, node: &str, owner: &Owner) -> Option<(Timestamp, Option<Effect>)> {
        let mut task = {
            let mut tasks = self.tasks();
            tasks.get(node).filter(|task| task.owner == *owner)?;
            tasks.remove(node)?
        };
        task.cancel.send_replace(true);
        let _ = timeout(CANCEL_WITHIN, &mut task.handle).await;
        Some((task.since, task.effect))
    }

    /// The nodes that an owner drains.
    pub(super) fn nodes_of(&self, owner: &Owner) -> Vec<String> {
        let tasks = self.tasks();
        tasks.iter().filter(|(_, task)| task.owner == *owner).map(|(node, _)| node.clone()).collect()
    }

    /// Ends the drains of nodes that no longer exist, and returns the names of the nodes.
    pub(super) fn end_gone(&self, exists: impl Fn(&str) -> bool) -> Vec<String> {
        let mut tasks = self.tasks();
        let gone: Vec<String> = tasks.keys().filter(|node| !exists(node)).cloned().collect();
        for node in &gone {
            tasks.remove(node);
        }
        gone
    }
}

/// Counts a drain while it runs, however it ends.
struct Running<'a>(&'a Shared);

impl<'a> Running<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.metrics.add("kiln_drains_running", &[], 1.0);
        Self(shared)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.metrics.add("kiln_drains_running", &[], -1.0);
    }
}

/// Takes kured's lock, holds the node, evicts its pods and waits for its volumes. The error is a sentence for people.
async fn run(shared: &Shared, request: &DrainRequest, mut cancelled: watch::Receiver<bool>) -> Result<(), String> {
    let DrainRequest { node, since, limit, .. } = request;
    let now = (shared.options.clock)();
    let early = BEFORE_LIMIT.min(*limit / 4);
    let left = Duration::try_from(*limit - early - now.duration_since(*since)).unwrap_or_default().max(SHORTEST);
    let deadline = Instant::now() + left;
    acquire(shared, request, deadline, &mut cancelled).await?;
    let drain = async {
        let within = || deadline.saturating_duration_since(Instant::now());
        let mut options = DrainOptions::with_grace(shared.options.drain, None);
        (options.within, options.extend_to_graces) = (within(), false);
        shared.cluster.drain(node, &options, &mut drop).await?;
        shared.cluster.wait_detached(node, within().max(SHORTEST), &mut drop).await
    };
    tokio::select! {
        biased;
        _ = cancelled.wait_for(|cancelled| *cancelled) => Err("the drain was cancelled".to_owned()),
        done = drain => done.map_err(|error: DrainError| error.to_string()),
    }
}

/// Takes kured's lock and then the hold: a node that waits for kured stays schedulable. Only the pauses are cancellable: a write in flight
/// could arrive after the release.
async fn acquire(
    shared: &Shared,
    request: &DrainRequest,
    deadline: Instant,
    cancelled: &mut watch::Receiver<bool>,
) -> Result<(), String> {
    let DrainRequest { node, owner, since, .. } = request;
    loop {
        let obstacle = match shared.cluster.take_kured_lock(node).await {
            Ok(KuredAttempt::Absent | KuredAttempt::Taken) => {
                match shared.cluster.hold_since(node, owner, HoldScope::CORDON, *since).await {
                    Ok(_) => return Ok(()),
                    Err(error @ Error::HeldByAnother { .. }) => error.to_string(),
                    Err(error) if error.is_retryable() => error.to_string(),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(KuredAttempt::HeldBy(lock)) => lock.to_string(),
            // Another node's lock was taken at the same moment.
            Err(error) if error.is_conflict() => {
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            Err(error) if error.is_retryable() => error.to_string(),
            Err(error) => return Err(error.to_string()),
        };
        let wake = Instant::now() + BETWEEN_ATTEMPTS;
        if wake >= deadline {
            return Err(format!("the node could not be cordoned: {obstacle}"));
        }
        tokio::select! {
            _ = cancelled.wait_for(|cancelled| *cancelled) => return Err("the drain was cancelled".to_owned()),
            () = sleep_until(wake) => {}
        }
    }
}
