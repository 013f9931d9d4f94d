//! Whether the pods of DaemonSets are ready on each node, for the gate `daemonSetsReady`.
//!
//! Pods are watched only while a rollout with this gate is open, and only one flag per pod of a `DaemonSet` is kept: a cluster has far more
//! pods than nodes.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use tokio::task::JoinHandle;

use super::stores::Backoff;
use super::writes::Shared;

/// The watch of the pods of DaemonSets.
pub(super) struct PodWatch {
    shared: Arc<Shared>,
    running: Option<(JoinHandle<()>, Arc<Mutex<Flags>>)>,
}

/// Which pods are ready, by node and uid.
#[derive(Debug, Default)]
struct Flags {
    nodes: HashMap<String, BTreeMap<String, bool>>,
    /// The pods of a list that has not ended.
    listed: Option<HashMap<String, BTreeMap<String, bool>>>,
    synced: bool,
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl PodWatch {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, running: None }
    }

    /// Watches pods from now on, or no longer.
    pub(super) fn run(&mut self, wanted: bool) {
        if !wanted {
            self.stop();
        } else if self.running.is_none() {
            let flags = Arc::new(Mutex::new(Flags::default()));
            self.running = Some((tokio::spawn(follow(self.shared.clone(), flags.clone())), flags));
        }
    }

    fn stop(&mut self) {
        if let Some((task, _)) = self.running.take() {
            task.abort();
        }
    }

    /// Whether all pods of DaemonSets on a node are ready, as far as it is known.
    pub(super) fn is_ready(&self, node: &str) -> bool {
        self.running.as_ref().is_some_and(|(_, flags)| {
            let flags = flags.lock().unwrap_or_else(PoisonError::into_inner);
            flags.synced && flags.nodes.get(node).is_none_or(|pods| pods.values().all(|ready| *ready))
        })
    }
}

async fn follow(shared: Arc<Shared>, flags: Arc<Mutex<Flags>>) {
    let api: Api<Pod> = Api::all(shared.cluster.client().clone());
    let mut events = pin!(watch(api, watcher::Config::default()).backoff(Backoff::default()));
    while let Some(event) = events.next().await {
        // After an error, the last known state counts until the watch continues.
        let Ok(event) = event else { continue };
        if flags.lock().unwrap_or_else(PoisonError::into_inner).apply(&event) {
            shared.stores.changed.notify_one();
        }
    }
}

impl Flags {
    /// Stores an event, and returns whether something changed.
    fn apply(&mut self, event: &Event<Pod>) -> bool {
        match event {
            Event::Init => {
                self.listed = Some(HashMap::new());
                false
            }
            Event::InitApply(pod) => {
                if let Some((node, uid, ready)) = facts(pod) {
                    self.listed
                        .get_or_insert_default()
                        .entry(node.to_owned())
                        .or_default()
                        .insert(uid.to_owned(), ready);
                }
                false
            }
            Event::InitDone => {
                self.nodes = self.listed.take().unwrap_or_default();
                self.synced = true;
                true
            }
            Event::Apply(pod) => facts(pod).is_some_and(|(node, uid, ready)| {
                self.nodes.entry(node.to_owned()).or_default().insert(uid.to_owned(), ready) != Some(ready)
            }),
            Event::Delete(pod) => facts(pod).is_some_and(|(node, uid, _)| {
                let pods = self.nodes.get_mut(node);
                pods.is_some_and(|pods| pods.remove(uid).is_some())
            }),
        }
    }
}

/// Node, uid and readiness of a pod of a `DaemonSet`.
fn facts(pod: &Pod) -> Option<(&str, &str, bool)> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true))?;
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Some((node, pod.metadata.uid.as_deref()?, ready))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, kind: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"uid": uid, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": true},
            ]},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    #[test]
    fn node_is_ready_when_all_pods_of_its_daemon_sets_are() {
        let mut flags = Flags::default();
        flags.apply(&Event::Init);
        flags.apply(&Event::InitApply(pod("1", "DaemonSet", "False")));
        flags.apply(&Event::InitApply(pod("2", "ReplicaSet", "False")));
        assert!(flags.apply(&Event::InitDone) && flags.synced);
        assert_eq!(flags.nodes["n"], BTreeMap::from([("1".to_owned(), false)]), "only pods of DaemonSets count");
        assert!(flags.apply(&Event::Apply(pod("1", "DaemonSet", "True"))));
        assert!(!flags.apply(&Event::Apply(pod("1", "DaemonSet", "True"))), "nothing changed");
        assert!(flags.apply(&Event::Apply(pod("3", "DaemonSet", "False"))));
        assert!(flags.apply(&Event::Delete(pod("3", "DaemonSet", "False"))));
        assert!(flags.nodes["n"].values().all(|ready| *ready));
    }
}
