//! The stores of all kinds that the operator reads, and the watches that fill them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kiln_fleet_api::{Freeze, ImageVersion, NodeConfig, NodeState, Pool, Prototype, Rollout, RolloutPolicy};
use kiln_kubernetes::{Cluster, HOLD_ANNOTATION};
use kube::runtime::{WatchStreamExt, utils, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::OperatorOptions;
use super::event::OperatorEvent;
use super::metrics::Metrics;
use super::options::Report;
use super::readers;
use super::store::{Snapshot, Store, Stored};
use super::writes::FIELD_MANAGER;

/// A watch ends by itself after this many seconds and is resumed where it ended. A dead connection is noticed 5 s later.
const WATCH_SECONDS: u32 = 120;

impl Stored for Freeze {}
impl Stored for ImageVersion {}
impl Stored for NodeConfig {}
impl Stored for Pool {}
impl Stored for Prototype {}
impl Stored for Rollout {}
impl Stored for RolloutPolicy {}

impl Stored for NodeState {
    /// Keeps when the operator last changed the spec.
    fn trim(&mut self) {
        let entries = self.metadata.managed_fields.take().unwrap_or_default();
        let own = entries.into_iter().filter(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        let own: Vec<ManagedFieldsEntry> = own.map(|entry| ManagedFieldsEntry { fields_v1: None, ..entry }).collect();
        self.metadata.managed_fields = (!own.is_empty()).then_some(own);
    }
}

impl Stored for Node {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        if let Some(status) = &mut self.status {
            // The longest part of a node by far.
            status.images = None;
        }
    }

    /// Kubelets write to their nodes all the time, and only some of it matters.
    fn is_equivalent(&self, other: &Self) -> bool {
        fn conditions(node: &Node) -> impl Iterator<Item = (&str, &str)> {
            let all = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            all.map(|condition: &NodeCondition| (condition.type_.as_str(), condition.status.as_str()))
        }
        let hold = |node: &Node| node.metadata.annotations.as_ref().and_then(|all| all.get(HOLD_ANNOTATION)).cloned();
        self.metadata.labels == other.metadata.labels
            && self.metadata.uid == other.metadata.uid
            && self.metadata.deletion_timestamp == other.metadata.deletion_timestamp
            && self.spec == other.spec
            && hold(self) == hold(other)
            && conditions(self).eq(conditions(other))
    }
}

/// The stores of all kinds.
#[derive(Default)]
pub(super) struct Stores {
    pub(super) rollouts: Store<Rollout>,
    pub(super) policies: Store<RolloutPolicy>,
    pub(super) freezes: Store<Freeze>,
    pub(super) pools: Store<Pool>,
    pub(super) configs: Store<NodeConfig>,
    pub(super) states: Store<NodeState>,
    pub(super) nodes: Store<Node>,
    /// The operator's own, filled only with [`Self::per_node_read`].
    pub(super) roles: Store<ClusterRole>,
    /// As `roles`.
    pub(super) bindings: Store<ClusterRoleBinding>,
    pub(super) per_node_read: bool,
    pub(super) prototypes: Store<Prototype>,
    pub(super) versions: Store<ImageVersion>,
    /// Notified after each change that matters.
    pub(super) changed: Notify,
    /// The last error of each watch that has not succeeded since.
    failing: Mutex<BTreeMap<&'static str, String>>,
}

/// Everything that a decision reads, at one moment.
pub(super) struct Snapshots {
    pub(super) rollouts: Snapshot<Rollout>,
    pub(super) policies: Snapshot<RolloutPolicy>,
    pub(super) freezes: Snapshot<Freeze>,
    pub(super) pools: Snapshot<Pool>,
    pub(super) configs: Snapshot<NodeConfig>,
    pub(super) states: Snapshot<NodeState>,
    pub(super) nodes: Snapshot<Node>,
    pub(super) prototypes: Snapshot<Prototype>,
    pub(super) versions: Snapshot<ImageVersion>,
}

impl Stores {
    /// Empty stores, of roles too if each node has its own.
    pub(super) fn new(per_node_read: bool) -> Self {
        Self { per_node_read, ..Self::default() }
    }

    /// Reads all stores.
    pub(super) fn snapshots(&self) -> Snapshots {
        Snapshots {
            rollouts: self.rollouts.snapshot(),
            policies: self.policies.snapshot(),
            freezes: self.freezes.snapshot(),
            pools: self.pools.snapshot(),
            configs: self.configs.snapshot(),
            states: self.states.snapshot(),
            nodes: self.nodes.snapshot(),
            prototypes: self.prototypes.snapshot(),
            versions: self.versions.snapshot(),
        }
    }

    fn failing(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kinds that have not been listed yet, with the error of their watch.
    pub(super) fn missing(&self) -> Vec<String> {
        let synced = [
            ("Rollouts", self.rollouts.is_synced()),
            ("RolloutPolicies", self.policies.is_synced()),
            ("Freezes", self.freezes.is_synced()),
            ("Pools", self.pools.is_synced()),
            ("NodeConfigs", self.configs.is_synced()),
            ("NodeStates", self.states.is_synced()),
            ("Nodes", self.nodes.is_synced()),
            ("ClusterRoles", !self.per_node_read || self.roles.is_synced()),
            ("ClusterRoleBindings", !self.per_node_read || self.bindings.is_synced()),
            ("Prototypes", self.prototypes.is_synced()),
            ("ImageVersions", self.versions.is_synced()),
        ];
        let failing = self.failing();
        let missing = synced.into_iter().filter(|(_, synced)| !synced);
        missing
            .map(|(kind, _)| match failing.get(kind) {
                Some(error) => format!("{kind}: {error}"),
                None => kind.to_owned(),
            })
            .collect()
    }

    /// Follows all watches, each in its own task, until the result is dropped.
    pub(super) fn follow(
        self: &Arc<Self>,
        cluster: &Cluster,
        options: &OperatorOptions,
        metrics: &Arc<Metrics>,
    ) -> JoinSet<()> {
        let follow = |kind| Follow {
            kind,
            stores: self.clone(),
            client: cluster.client().clone(),
            report: options.report.clone(),
            metrics: metrics.clone(),
            selector: None,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(follow("Rollouts").run(|stores| &stores.rollouts));
        tasks.spawn(follow("RolloutPolicies").run(|stores| &stores.policies));
        tasks.spawn(follow("Freezes").run(|stores| &stores.freezes));
        tasks.spawn(follow("Pools").run(|stores| &stores.pools));
        tasks.spawn(follow("NodeConfigs").run(|stores| &stores.configs));
        tasks.spawn(follow("NodeStates").run(|stores| &stores.states));
        tasks.spawn(follow("Nodes").run(|stores| &stores.nodes));
        if self.per_node_read {
            let own = |kind| Follow { selector: Some(readers::LABEL), ..follow(kind) };
            tasks.spawn(own("ClusterRoles").run(|stores| &stores.roles));
            tasks.spawn(own("ClusterRoleBindings").run(|stores| &stores.bindings));
        }
        tasks.spawn(follow("Prototypes").run(|stores| &stores.prototypes));
        tasks.spawn(follow("ImageVersions").run(|stores| &stores.versions));
        tasks
    }
}

/// The watch of one kind.
struct Follow {
    kind: &'static str,
    stores: Arc<Stores>,
    client: Client,
    report: Report,
    metrics: Arc<Metrics>,
    /// The label of the objects to watch; all by default.
    selector: Option<&'static str>,
}

impl Follow {
    async fn run<K>(self, store: fn(&Stores) -> &Store<K>)
    where
        K: Stored + Clone + Debug + DeserializeOwned,
        K: kube::Resource<Scope = kube::core::ClusterResourceScope>,
    {
        let Self { kind, stores, client, report, metrics, selector } = self;
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        config.label_selector = selector.map(str::to_owned);
        let mut events = pin!(watcher(Api::<K>::all(client), config).backoff(Backoff::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    stores.failing().remove(kind);
                    if store(&stores).apply(event) {
                        stores.changed.notify_one();
                    }
                }
                Err(error) => {
                    let error = kiln_types::error_chain::to_line(&error);
                    let is_new = stores.failing().insert(kind, error.clone()).as_ref() != Some(&error);
                    metrics.add("kiln_operator_watch_errors_total", &[kind], 1.0);
                    if is_new {
                        report(&OperatorEvent::WatchFailed { kind, error });
                    }
                }
            }
        }
    }
}

/// Waits between attempts to watch: a changed object is acted on soon after the API server is back.
#[derive(Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = Duration::from_millis(250).saturating_mul(1 << self.failures.min(5)).min(Duration::from_secs(5));
        self.failures += 1;
        Some(wait)
    }
}

impl utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
