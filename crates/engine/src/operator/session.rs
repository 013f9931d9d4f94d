//! One term of leadership: after each change, everything is looked at again.
//!
//! A pass reads only the stores, so it costs no request if nothing has to be written. It is cheap enough for thousands of nodes, and it
//! cannot miss a dependency between two kinds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kiln_kubernetes::{Cluster, Error, HoldScope};
use kiln_rollout::PastTurn;
use tokio::time::{Instant, sleep, sleep_until};

use super::OperatorOptions;
use super::documents::Documents;
use super::drains::Drains;
use super::images::{Images, scale_set};
use super::index::{Index, hold, rollout_uid, state_of, until};
use super::metrics::Metrics;
use super::observe::{age, is_open, resolve_policy};
use super::pods::PodWatch;
use super::pools::{StateWrite, plan_state};
use super::prometheus::Queries;
use super::requests;
use super::stores::{Snapshots, Stores};
use super::writes::Shared;
use crate::stop::Stop;

/// Changes of nodes come in groups: one pass serves those of this time.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Writes of one pass at the same time.
pub(super) const PARALLEL: usize = 16;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// One term of leadership.
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) drains: Drains,
    pub(super) pods: PodWatch,
    pub(super) queries: Queries,
    /// None if the operator does not work with images.
    pub(super) images: Option<Images>,
    pub(super) documents: Documents,
    pub(super) index: Index,
    pub(super) past: Mutex<VecDeque<PastTurn>>,
    /// The nodes that rollouts held in the last pass, for which the operator may have kured's lock.
    pub(super) held: BTreeSet<String>,
    /// Failures of each object, and when it is tried again.
    retries: BTreeMap<String, (u32, Instant)>,
}

impl Shared {
    async fn write_state(&self, view: &Snapshots, node: &Node, write: StateWrite) -> Result<(), Error> {
        let states = &self.stores.states;
        match write {
            StateWrite::Create(state) => self.create(states, &*state).await,
            StateWrite::Patch(patch) => {
                let Some(state) = node.metadata.name.as_ref().and_then(|name| view.states.get(name)) else {
                    return Ok(());
                };
                self.patch(states, &**state, patch).await.map(drop)
            }
        }
    }
}

/// One part of a pass.
struct Attempt {
    controller: &'static str,
    key: String,
    failures: u32,
    started: Instant,
}

impl Session {
    pub(super) fn new(cluster: Cluster, options: OperatorOptions, stores: Arc<Stores>, metrics: Arc<Metrics>) -> Self {
        let shared = Arc::new(Shared { cluster, options, stores, metrics });
        shared.metrics.set("kiln_drains_running", &[], 0.0);
        Self {
            drains: Drains::new(shared.clone()),
            pods: PodWatch::new(shared.clone()),
            queries: Queries::new(shared.clone()),
            images: shared.options.images.clone().map(|options| Images::new(shared.clone(), options)),
            shared,
            documents: Documents::default(),
            index: Index::default(),
            past: Mutex::default(),
            held: BTreeSet::new(),
            retries: BTreeMap::new(),
        }
    }

    /// Acts until a stop is requested.
    pub(super) async fn run(&mut self, stop: &Stop) {
        let mut wake = Instant::now();
        let mut has_swept = false;
        while !stop.is_requested() {
            tokio::select! {
                () = stop.requested() => return,
                () = self.shared.stores.changed.notified() => {}
                () = sleep_until(wake) => {}
            }
            sleep(DEBOUNCE).await;
            wake = Instant::now() + self.shared.options.resync;
            let is_synced = self.shared.stores.missing().is_empty();
            self.shared.metrics.set("kiln_operator_synced", &[], f64::from(u8::from(is_synced)));
            if !is_synced {
                // A decision without all objects would be wrong. The last list notifies.
                continue;
            }
            if !has_swept {
                self.sweep_kured().await;
                has_swept = true;
            }
            let next = self.pass(stop).await;
            wake = wake.min(next);
        }
    }

    /// Looks at everything, and returns when to look again.
    async fn pass(&mut self, stop: &Stop) -> Instant {
        let now = (self.shared.options.clock)();
        let mut wake: Option<Timestamp> = None;
        let view = self.shared.stores.snapshots();
        self.documents.update(&view.configs);
        self.index = Index::new(&view.pools, &view.nodes);
        self.unlock_gone(&view).await;
        let watches_pods = |view: &Snapshots| {
            view.rollouts.values().any(|rollout| is_open(rollout) && resolve_policy(rollout, view).watches_pods())
        };
        self.pods.run(watches_pods(&view));
        self.queries.retain(|name| view.rollouts.get(name).is_some_and(|rollout| is_open(rollout)));

        if let Some(attempt) = self.begin("node", "node", stop) {
            let done = self.nodes(&view, now).await;
            self.end(attempt, done);
        }
        if self.shared.options.per_node_read
            && let Some(attempt) = self.begin("node", "reader", stop)
        {
            let done = self.shared.grant_reads(&view.states).await;
            self.end(attempt, done);
        }
        let reads = self.read_images(&view);
        let mut rollouts: Vec<_> = view.rollouts.iter().collect();
        rollouts.sort_by(|(_, a), (_, b)| age(a).cmp(&age(b)));
        for (name, _) in rollouts {
            if let Some(attempt) = self.begin("rollout", &format!("rollout/{name}"), stop) {
                let done = self.reconcile(name, stop).await;
                wake = wake.into_iter().chain(self.end(attempt, done).flatten()).min();
            }
        }
        let view = self.shared.stores.snapshots();
        if let Some(attempt) = self.begin("pool", "pool", stop) {
            let done = self.pools(&view, now).await;
            self.end(attempt, done);
        }
        for name in view.prototypes.keys() {
            if let Some(attempt) = self.begin("prototype", &format!("prototype/{name}"), stop) {
                let done = self.prototype(name, &view, now).await;
                wake = wake.into_iter().chain(self.end(attempt, done).flatten()).min();
            }
        }
        if let Some(attempt) = self.images.as_ref().and_then(|_| self.begin("image", "image", stop)) {
            let done = match &self.images {
                Some(images) => images.records(&view).await,
                None => Ok(()),
            };
            self.end(attempt, done);
        }
        if let Some(attempt) = self.begin("object", "object", stop) {
            let done = self.objects(&view, now).await;
            self.end(attempt, done);
        }
        self.show(&view, now);
        let ends = view.freezes.values().filter_map(|freeze| until(freeze)).filter(|until| *until > now);
        wake = wake.into_iter().chain(ends).min();
        let soonest = wake.map(|wake| {
            let left = wake.duration_since((self.shared.options.clock)());
            Instant::now() + Duration::try_from(left).unwrap_or_default()
        });
        let retry = self.retries.values().map(|(_, at)| *at).min();
        let resync = Instant::now() + self.shared.options.resync;
        let images = self.images.as_ref().and_then(Images::next_retry);
        soonest.into_iter().chain(retry).chain(reads).chain(images).fold(resync, Instant::min)
    }

    /// Reads the scale sets of all pools that are due, and returns when the next one is.
    fn read_images(&self, view: &Snapshots) -> Option<Instant> {
        let images = self.images.as_ref()?;
        let mut wanted = BTreeMap::new();
        for (name, pool) in &view.pools {
            let Some(Ok(set)) = scale_set(pool) else { continue };
            let is_urgent = view.rollouts.values().any(|rollout| {
                let is_image = rollout.spec.target.image_version.is_some();
                is_image && is_open(rollout) && rollout.spec.pools.contains(name)
            });
            *wanted.entry(set).or_insert(false) |= is_urgent;
        }
        images.read_due(&wanted)
    }

    /// Begins one part of a pass, unless it failed and its pause is not over, or a stop was requested.
    fn begin(&self, controller: &'static str, key: &str, stop: &Stop) -> Option<Attempt> {
        let now = Instant::now();
        let failures = match self.retries.get(key) {
            Some((_, at)) if *at > now => return None,
            Some((failures, _)) => *failures,
            None => 0,
        };
        (!stop.is_requested()).then(|| Attempt { controller, key: key.to_owned(), failures, started: now })
    }

    /// Measures a part of a pass, and plans the next attempt if it failed.
    fn end<T>(&mut self, attempt: Attempt, done: Result<T, Error>) -> Option<T> {
        let Attempt { controller, key, failures, started } = attempt;
        let metrics = &self.shared.metrics;
        metrics.add("kiln_operator_reconcile_total", &[controller], 1.0);
        metrics.observe("kiln_operator_reconcile_seconds", &[controller], started.elapsed().as_secs_f64());
        let error = match done {
            Ok(done) => {
                self.retries.remove(&key);
                return Some(done);
            }
            Err(error) => error,
        };
        // A conflict means that a newer version is on its way.
        let is_conflict = error.is_conflict() || error.is_not_found();
        if !is_conflict {
            metrics.add("kiln_operator_reconcile_errors_total", &[controller], 1.0);
            self.shared.failed(&key, &error);
        }
        let first = if is_conflict { DEBOUNCE } else { FIRST_RETRY };
        let wait = first.saturating_mul(1 << failures.min(10)).min(LONGEST_RETRY);
        self.retries.insert(key, (failures + 1, Instant::now() + wait));
        None
    }

    /// NodeStates of all nodes of pools, what nodes ask for, and holds whose Rollout no longer exists.
    async fn nodes(&mut self, view: &Snapshots, now: Timestamp) -> Result<(), Error> {
        let (shared, documents) = (&self.shared, &self.documents);
        let mut writes = Vec::new();
        for (node, pool) in self.index.pooled() {
            let (Some(node), Some(pool)) = (view.nodes.get(node), view.pools.get(pool)) else { continue };
            if let Some(write) = plan_state(node, pool, view, documents, now) {
                writes.push((node, write));
            }
        }
        let writes: Vec<_> = writes.into_iter().map(|(node, write)| shared.write_state(view, node, write)).collect();
        let results: Vec<Result<(), Error>> = stream::iter(writes).buffer_unordered(PARALLEL).collect().await;
        let mut first = results.into_iter().find_map(Result::err);
        for node in view.nodes.values() {
            let patch = state_of(&view.states, node).and_then(|state| requests::plan(node, state, documents));
            if let Some(patch) = patch
                && let Err(error) = shared.patch(&shared.stores.nodes, &**node, patch).await
            {
                first.get_or_insert(error);
            }
            if let Some(hold) = hold(node)
                && let Some(uid) = rollout_uid(&hold.owner)
                && !view.rollouts.values().any(|rollout| rollout.metadata.uid.as_deref() == Some(uid))
                && let Some(Ok(name)) = node.metadata.name.as_deref().map(str::parse)
            {
                shared.cluster.release_kured_lock(&name).await?;
                shared.cluster.release(&name, &hold.owner, HoldScope::CORDON).await?;
                let message = format!("released the hold of `{}`, which no longer exists", hold.owner);
                shared.notice(&**node, false, "Released", &message).await;
            }
        }
        first.map_or(Ok(()), Err)
    }
}
