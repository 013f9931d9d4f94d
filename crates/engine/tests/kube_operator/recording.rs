//! A recording of what a watch shows during a rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{NodeState, Phase};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::task::JoinHandle;

/// A change that a watch showed.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    State(Box<NodeState>),
    Node(Box<Node>),
}

/// Records all versions of Nodes and NodeStates until it is dropped.
pub(crate) struct Recording {
    seen: Arc<Mutex<Vec<Seen>>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Recording {
    pub(crate) fn start(client: &Client) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (states, nodes) = (Api::<NodeState>::all(client.clone()), Api::<Node>::all(client.clone()));
        let (first, second) = (seen.clone(), seen.clone());
        let tasks = [
            tokio::spawn(async move {
                let mut events = pin!(watcher(states, watcher::Config::default()).default_backoff().applied_objects());
                while let Some(event) = events.next().await {
                    first.lock().unwrap().extend(event.ok().map(|state| Seen::State(Box::new(state))));
                }
            }),
            tokio::spawn(async move {
                let mut events = pin!(watcher(nodes, watcher::Config::default()).default_backoff().applied_objects());
                while let Some(event) = events.next().await {
                    second.lock().unwrap().extend(event.ok().map(|node| Seen::Node(Box::new(node))));
                }
            }),
        ];
        Self { seen, tasks }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The documents that were assigned to each node, in order.
    pub(crate) fn assignments(&self) -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for seen in self.seen() {
            let Seen::State(state) = seen else { continue };
            let Some(desired) = &state.spec.desired else { continue };
            let list = all.entry(state.metadata.name.clone().unwrap()).or_default();
            let entry = format!("{} {}", desired.digest, desired.since);
            if list.last() != Some(&entry) {
                list.push(entry);
            }
        }
        all
    }

    /// The names of the nodes with a document, in the order in which they got it.
    pub(crate) fn order(&self, digest: &str) -> Vec<(String, u32)> {
        let mut order: Vec<(String, u32)> = Vec::new();
        for seen in self.seen() {
            let Seen::State(state) = seen else { continue };
            let Some(desired) = state.spec.desired.as_ref().filter(|desired| desired.digest == digest) else {
                continue;
            };
            let name = state.metadata.name.clone().unwrap();
            if !order.iter().any(|(known, _)| *known == name) {
                order.push((name, desired.wave));
            }
        }
        order
    }

    /// The sets of nodes that were in flight at the same time: assigned, and not reported as current.
    pub(crate) fn in_flight(&self, digest: &str) -> Vec<BTreeSet<String>> {
        let mut flying = BTreeSet::new();
        let mut all = Vec::new();
        for seen in self.seen() {
            let Seen::State(state) = seen else { continue };
            let is_assigned = state.spec.desired.as_ref().is_some_and(|desired| desired.digest == digest);
            let is_current = state.status.as_ref().is_some_and(|status| {
                status.phase == Phase::Current
                    && status.current.as_ref().is_some_and(|current| current.digest == digest)
            });
            let name = state.metadata.name.clone().unwrap();
            if is_assigned && !is_current {
                flying.insert(name)
            } else {
                flying.remove(&name)
            };
            all.push(flying.clone());
        }
        all
    }

    /// The sets of nodes that were cordoned at the same time.
    pub(crate) fn cordoned(&self) -> Vec<BTreeSet<String>> {
        let mut cordoned = BTreeSet::new();
        let mut all = Vec::new();
        for seen in self.seen() {
            let Seen::Node(node) = seen else { continue };
            let name = node.metadata.name.clone().unwrap();
            if node.spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
                cordoned.insert(name);
            } else {
                cordoned.remove(&name);
            }
            all.push(cordoned.clone());
        }
        all
    }
}
