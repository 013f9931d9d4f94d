//! The driver: list, decide, ask, and list again until nothing that must leave is left.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use tokio::time::{Instant, sleep_until};

use super::answer::EvictAnswer;
use super::ask::How;
use super::decide::{Flags, SkipReason};
use super::failure::DrainError;
use super::ledger::Ledger;
use super::pod::{Controller, PodFacts, PodId};
use super::progress::Progress;
use crate::call::{Outage, once};
use crate::name::NodeName;
use crate::{Cluster, Error};

/// One list of a node's pods costs less than the one read per pod and second that `kubectl` does.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// A scheduler that had not seen the cordon yet may still bind a pod: a node counts as drained when two lists this far apart say so.
const SETTLE: Duration = Duration::from_millis(500);
/// A node has 110 pods by default, 250 at most on AKS: a page holds them all.
const PAGE: u32 = 500;

/// How to drain.
#[derive(Debug, Clone)]
pub struct DrainOptions {
    /// What is allowed.
    pub flags: Flags,
    /// Seconds that each pod gets, if not its own number.
    pub grace: Option<u32>,
    /// After which the drain fails and names what is left.
    pub within: Duration,
    /// How many evictions are on their way at once.
    pub parallel: NonZeroUsize,
}

impl DrainOptions {
    /// Ten evictions at once are far below what one client may ask of a server at a time, and empty a node in a dozen round trips.
    pub const PARALLEL: NonZeroUsize = NonZeroUsize::new(10).unwrap();

    /// With these flags, each pod's own grace, and this deadline.
    pub fn new(flags: Flags, within: Duration) -> Self {
        Self { flags, grace: None, within, parallel: Self::PARALLEL }
    }
}

/// A drained node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// The pods that left, in the order in which they did.
    pub gone: Vec<PodId>,
    /// The pods that stay, and why.
    pub stay: Vec<(PodId, SkipReason)>,
}

/// What one drain remembers.
pub(super) struct Drain<'a> {
    cluster: &'a Cluster,
    node: &'a NodeName,
    options: &'a DrainOptions,
    started: Instant,
    ledger: Ledger,
    daemon_sets: BTreeMap<(String, String), bool>,
    outage: Outage,
    failures: u32,
}

impl Cluster {
    /// Makes every pod that may leave do so, and waits until they are gone. The cordon is the caller's: this neither sets nor lifts it, so
    /// that a drain that is dropped leaves it as it is.
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
            ledger: Ledger::default(),
            daemon_sets: BTreeMap::new(),
            outage: Outage::default(),
            failures: 0,
        }
    }

    async fn run(mut self, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Drained, DrainError> {
        let deadline = self.started + self.options.within;
        let (mut clear, mut began) = (false, false);
        loop {
            let pods = match self.pods().await {
                Ok(pods) => pods,
                Err(error) => {
                    self.bear(error, deadline, progress).await?;
                    continue;
                }
            };
            self.failures = 0;
            let round = self.ledger.observe(pods, self.options.flags, self.started.elapsed());
            round.news.into_iter().for_each(&mut *progress);
            if !round.blocked.is_empty() {
                return Err(DrainError::Blocked { node: self.node.clone(), began, pods: round.blocked });
            }
            if self.ledger.is_clear() && clear {
                let (gone, stay) = self.ledger.finish();
                return Ok(Drained { gone, stay });
            }
            clear = self.ledger.is_clear();
            let over = Instant::now() >= deadline;
            if !over {
                began |= !round.ask.is_empty();
                self.ask(round.ask, progress).await?;
            }
            if self.ledger.is_hopeless() || (over && !clear) {
                return Err(self.left());
            }
            let wake = Instant::now() + if clear { SETTLE } else { POLL };
            sleep_until(if clear { wake } else { wake.min(deadline) }).await;
        }
    }

    fn left(&self) -> DrainError {
        DrainError::Left { node: self.node.clone(), after: self.started.elapsed(), pods: self.ledger.left() }
    }

    /// Waits for a server that is away; fails when the time is over or the error is a real one.
    pub(super) async fn bear(
        &mut self,
        error: Error,
        deadline: Instant,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DrainError> {
        let now = Instant::now();
        if !error.expired() && !self.outage.passes(&error, now) {
            return Err(error.into());
        }
        let wake = now + self.cluster.wait_after(self.failures, &error);
        self.failures += 1;
        if wake >= deadline {
            return Err(if self.ledger.is_clear() { error.into() } else { self.left() });
        }
        progress(Progress::Away(error.to_string()));
        sleep_until(wake).await;
        Ok(())
    }

    /// Tells pods to end, so many at a time.
    async fn ask(
        &mut self,
        pods: Vec<PodFacts>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DrainError> {
        let how = How { delete: self.options.flags.disable_eviction, grace: self.options.grace };
        let cluster = self.cluster;
        let mut answers = stream::iter(pods)
            .map(|pod| async move { (cluster.ask_to_leave(&pod.id, how).await, pod.id) })
            .buffer_unordered(self.options.parallel.get());
        while let Some((answer, pod)) = answers.next().await {
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) if self.outage.passes(&error, Instant::now()) => {
                    EvictAnswer::Away { message: error.to_string() }
                }
                // A missing permission is missing for every pod.
                Err(error) => return Err(error.into()),
            };
            self.ledger.answered(&pod, answer, self.started.elapsed()).into_iter().for_each(&mut *progress);
        }
        Ok(())
    }

    /// The pods on the node now.
    pub(super) async fn pods(&mut self) -> Result<Vec<PodFacts>, Error> {
        let api: Api<Pod> = Api::all(self.cluster.client.clone());
        let what = format!("list the pods of node `{}`", self.node);
        let mut page = ListParams::default().fields(&format!("spec.nodeName={}", self.node)).limit(PAGE);
        let mut pods = Vec::new();
        loop {
            let list = once(&what, api.list(&page)).await?;
            pods.extend(list.items.into_iter().map(PodFacts::of));
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => break,
            }
        }
        for pod in pods.iter_mut().filter(|pod| !pod.finished) {
            if let Controller::DaemonSet { name, exists } = &mut pod.controller {
                *exists = self.exists(&pod.id.namespace, name).await?;
            }
        }
        Ok(pods)
    }

    /// Whether a `DaemonSet` exists, asked once per drain.
    async fn exists(&mut self, namespace: &str, name: &str) -> Result<bool, Error> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.daemon_sets.get(&key) {
            return Ok(*known);
        }
        let api: Api<DaemonSet> = Api::namespaced(self.cluster.client.clone(), namespace);
        let what = format!("get DaemonSet `{namespace}/{name}`");
        let exists = match once(&what, api.get_metadata(name)).await {
            Ok(_) => true,
            Err(error) if error.not_found() => false,
            Err(error) => return Err(error),
        };
        self.daemon_sets.insert(key, exists);
        Ok(exists)
    }
}
