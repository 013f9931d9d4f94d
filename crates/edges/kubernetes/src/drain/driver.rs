//! The driver: list, decide, evict, and list again until no pod remains that must leave.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, WatchEvent};
use tokio::time::{Instant, sleep_until};

use super::decide::{EvictionDecision, Flags, SkipReason, decide};
use super::error::DrainError;
use super::evict::RemovalMode;
use super::outcome::EvictionOutcome;
use super::pod::{Controller, PodFacts, PodId};
use super::progress::Progress;
use super::tracker::PodTracker;
use crate::name::NodeName;
use crate::request::{Outage, once};
use crate::watch::{LONGEST_WATCH, Watched};
use crate::{Cluster, Error};

/// Interval of lists while the pods cannot be watched. It costs less than the read per pod and second that `kubectl` does.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// A scheduler that has not seen the cordon yet may still bind a pod. Unless the caller drains again before it stops the node, a node counts
/// as drained after two clear lists this far apart.
const SETTLE: Duration = Duration::from_millis(500);
/// As in kamino, a drain may take three times the grace period of a pod.
const GRACES: u32 = 3;
/// Even without a grace period an eviction needs time to be answered.
const SHORTEST: Duration = Duration::from_mins(1);
/// The limit with each pod's own grace period, or longer if a pod needs it: kamino's limit with its default of 300 s.
const WITH_OWN_GRACE: Duration = Duration::from_mins(15);
/// A node has 110 pods by default and at most 250 on AKS, so one page holds them all.
const PAGE: u32 = 500;

/// Options of a drain.
#[derive(Debug, Clone)]
pub struct DrainOptions {
    pub flags: Flags,
    /// Grace period in seconds that replaces each pod's own; 0 ends the pods at once.
    pub grace: Option<u32>,
    /// The timeout, after which the drain fails and names the remaining pods.
    pub within: Duration,
    /// Extends the timeout to three times the longest grace period of the pods.
    pub extend_to_graces: bool,
    /// The number of concurrent evictions.
    pub parallel: NonZeroUsize,
    /// The time between two clear lists after which the node counts as drained. If it is zero, one clear list is enough: for a caller that
    /// drains again right before it stops the node.
    pub settle: Duration,
}

impl DrainOptions {
    /// Ten concurrent evictions are far below the server's limit per client, and empty a node in a dozen round trips.
    pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(10).unwrap();

    /// Options with each pod's own grace period.
    pub fn new(flags: Flags, within: Duration) -> Self {
        Self { flags, grace: None, within, extend_to_graces: false, parallel: Self::PARALLEL, settle: SETTLE }
    }

    /// Options with this grace period for every pod, or each pod's own, and a timeout that fits.
    pub fn with_grace(flags: Flags, grace: Option<u32>) -> Self {
        let within = grace
            .map_or(WITH_OWN_GRACE, |seconds| Duration::from_secs(seconds.into()).saturating_mul(GRACES).max(SHORTEST));
        Self { grace, extend_to_graces: grace.is_none(), ..Self::new(flags, within) }
    }
}

/// The result of a successful drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// The pods that left, in that order.
    pub evicted: Vec<PodId>,
    pub skipped: Vec<(PodId, SkipReason)>,
}

/// The state of one drain.
pub(super) struct Drain<'a> {
    cluster: &'a Cluster,
    node: &'a NodeName,
    options: &'a DrainOptions,
    started: Instant,
    tracker: PodTracker,
    daemon_sets: BTreeMap<(String, String), bool>,
    outage: Outage,
    failures: u32,
}

impl Cluster {
    /// Evicts every pod that may leave, and waits until they are gone. The caller owns the cordon: this neither sets nor removes it, so a
    /// drain that is dropped does not change it.
    pub async fn drain(
        &self,
        node: &NodeName,
        options: &DrainOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Drained, DrainError> {
        Drain::new(self, node, options).run(progress).await
    }
}

impl<'a> Drain<'a> {
    pub(super) fn new(cluster: &'a Cluster, node: &'a NodeName, options: &'a DrainOptions) -> Self {
        Self {
            cluster,
            node,
            options,
            started: Instant::now(),
            tracker: PodTracker::default(),
            daemon_sets: BTreeMap::new(),
            outage: Outage::default(),
            failures: 0,
        }
    }

    async fn run(mut self, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Drained, DrainError> {
        let mut deadline = self.started + self.options.within;
        let (mut clear, mut began) = (false, false);
        loop {
            let (pods, revision) = match self.pods().await {
                Ok(pods) => pods,
                Err(error) => {
                    self.wait_out(error, deadline, progress).await?;
                    continue;
                }
            };
            self.failures = 0;
            if self.options.extend_to_graces {
                deadline = deadline.max(self.started + self.longest_grace(&pods).saturating_mul(GRACES));
            }
            let round = self.tracker.observe(pods, self.options.flags, self.started.elapsed());
            round.progress.into_iter().for_each(&mut *progress);
            if !round.blocked.is_empty() {
                return Err(DrainError::Blocked { node: self.node.clone(), began, pods: round.blocked });
            }
            if self.tracker.is_clear() && (clear || self.options.settle.is_zero()) {
                let (evicted, skipped) = self.tracker.finish();
                return Ok(Drained { evicted, skipped });
            }
            clear = self.tracker.is_clear();
            let timed_out = Instant::now() >= deadline;
            if !timed_out {
                began |= !round.due.is_empty();
                self.evict(round.due, progress).await?;
            }
            if self.tracker.is_hopeless() || (timed_out && !clear) {
                return Err(self.remaining());
            }
            if clear {
                sleep_until(Instant::now() + self.options.settle).await;
                continue;
            }
            let now = Instant::now();
            let next = match self.tracker.next_due().map(|due| self.started + due) {
                Some(due) if due > now => due,
                // The pod has left, and the next list will show it.
                Some(_) => now + POLL,
                None => now + LONGEST_WATCH,
            };
            if let Err(error) = self.until_pods_change(&revision, next.min(deadline)).await {
                self.wait_out(error, deadline, progress).await?;
            }
        }
    }

    /// Waits until a pod of the node ends, is deleted or is added, at most until `wake`.
    pub(super) async fn until_pods_change(&self, revision: &str, wake: Instant) -> Result<(), Error> {
        let api: Api<Pod> = Api::all(self.cluster.client.clone());
        let (action, fields) = (format!("watch the pods of node `{}`", self.node), self.fields());
        let is_relevant = |event: &WatchEvent<Pod>| match event {
            WatchEvent::Modified(pod) => {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                matches!(phase, Some("Succeeded" | "Failed"))
            }
            _ => true,
        };
        let watched = Watched { action: &action, api: &api, fields: &fields, revision };
        self.cluster.wait_for_change(watched, is_relevant, POLL, wake).await
    }

    fn fields(&self) -> String {
        format!("spec.nodeName={}", self.node)
    }

    /// The longest grace period of the pods that leave.
    fn longest_grace(&self, pods: &[PodFacts]) -> Duration {
        let leaves = |pod: &&PodFacts| decide(pod, self.options.flags) == EvictionDecision::Evict;
        pods.iter().filter(leaves).map(|pod| pod.grace).max().unwrap_or_default()
    }

    fn remaining(&self) -> DrainError {
        DrainError::Remaining { node: self.node.clone(), after: self.started.elapsed(), pods: self.tracker.remaining() }
    }

    /// Waits for a server that is unavailable; fails at the deadline or if the error is permanent.
    pub(super) async fn wait_out(
        &mut self,
        error: Error,
        deadline: Instant,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DrainError> {
        let now = Instant::now();
        if !error.is_expired() && !self.outage.should_retry(&error, now) {
            return Err(error.into());
        }
        let wake = now + self.cluster.wait_after(self.failures, &error);
        self.failures += 1;
        if wake >= deadline {
            return Err(if self.tracker.is_clear() { error.into() } else { self.remaining() });
        }
        progress(Progress::Unavailable(error.to_string()));
        sleep_until(wake).await;
        Ok(())
    }

    /// Evicts pods, with limited concurrency.
    async fn evict(
        &mut self,
        pods: Vec<PodFacts>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DrainError> {
        let mode = RemovalMode { delete: self.options.flags.disable_eviction, grace: self.options.grace };
        let cluster = self.cluster;
        let mut outcomes = stream::iter(pods)
            .map(|pod| async move { (cluster.remove_pod(&pod.id, mode).await, pod.id) })
            .buffer_unordered(self.options.parallel.get());
        while let Some((outcome, pod)) = outcomes.next().await {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(error) if self.outage.should_retry(&error, Instant::now()) => {
                    EvictionOutcome::Unavailable { message: error.to_string() }
                }
                // A missing permission is missing for every pod.
                Err(error) => return Err(error.into()),
            };
            self.tracker.record(&pod, outcome, self.started.elapsed()).into_iter().for_each(&mut *progress);
        }
        Ok(())
    }

    /// The pods that are on the node now, and the revision of the list.
    pub(super) async fn pods(&mut self) -> Result<(Vec<PodFacts>, String), Error> {
        let api: Api<Pod> = Api::all(self.cluster.client.clone());
        let action = format!("list the pods of node `{}`", self.node);
        let mut page = ListParams::default().fields(&self.fields()).limit(PAGE);
        let mut pods = Vec::new();
        let revision = loop {
            let list = once(&action, api.list(&page)).await?;
            pods.extend(list.items.into_iter().map(PodFacts::from_pod));
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => break list.metadata.resource_version.unwrap_or_default(),
            }
        };
        for pod in pods.iter_mut().filter(|pod| !pod.finished) {
            if let Controller::DaemonSet { name, exists } = &mut pod.controller {
                *exists = self.daemon_set_exists(&pod.id.namespace, name).await?;
            }
        }
        Ok((pods, revision))
    }

    /// Whether a `DaemonSet` exists. Queried once per drain.
    async fn daemon_set_exists(&mut self, namespace: &str, name: &str) -> Result<bool, Error> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.daemon_sets.get(&key) {
            return Ok(*known);
        }
        let api: Api<DaemonSet> = Api::namespaced(self.cluster.client.clone(), namespace);
        let action = format!("get DaemonSet `{namespace}/{name}`");
        let exists = match once(&action, api.get_metadata(name)).await {
            Ok(_) => true,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error),
        };
        self.daemon_sets.insert(key, exists);
        Ok(exists)
    }
}
