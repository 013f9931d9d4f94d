//! Answers for the kilnd of all nodes, as the contract between kilnd and the operator says. A simulation: thousands of real nodes cannot be had.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use kiln_fleet_api::{Current, Effect, NodeState, NodeStateStatus, Phase, RequestedAction, Requests, Reverted};
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

/// What a document does to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It is applied while the pods run.
    InPlace,
    /// The node reverts it.
    Bad,
    /// It needs a drain.
    Drain,
    /// It needs a drain and a reboot.
    Reboot,
}

/// Behaviours by the digest of a document and the name of a node; an empty name means every other node.
type Behaviours = Arc<Mutex<BTreeMap<(String, String), Behaviour>>>;

/// A task that plays kilnd on all nodes. Dropping it ends it.
#[derive(Debug)]
pub struct Kilnd {
    task: JoinHandle<()>,
    behaviours: Behaviours,
}

impl Drop for Kilnd {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kilnd {
    /// Starts to answer, fast, but slowly enough for a watch to show the state between.
    pub fn start(client: Client) -> Self {
        Self::with_delay(client, Duration::from_millis(30))
    }

    /// Starts to answer each change after this time.
    pub fn with_delay(client: Client, delay: Duration) -> Self {
        let behaviours = Behaviours::default();
        Self { task: tokio::spawn(answer_all(client, behaviours.clone(), delay)), behaviours }
    }

    /// Sets what a document does to every node that has no behaviour of its own.
    pub fn on(&self, digest: &str, behaviour: Behaviour) {
        self.on_node(digest, "", behaviour);
    }

    /// Sets what a document does to one node.
    pub fn on_node(&self, digest: &str, node: &str, behaviour: Behaviour) {
        locked(&self.behaviours).insert((digest.to_owned(), node.to_owned()), behaviour);
    }
}

fn locked(behaviours: &Behaviours) -> MutexGuard<'_, BTreeMap<(String, String), Behaviour>> {
    behaviours.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer_all(client: Client, behaviours: Behaviours, delay: Duration) {
    let api: Api<NodeState> = Api::all(client);
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()).default_backoff().applied_objects());
    while let Some(state) = events.next().await {
        let Ok(state) = state else { continue };
        let Some(name) = state.metadata.name.clone() else { continue };
        let Some(status) = answer(&state, &locked(&behaviours)) else { continue };
        let api = api.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // A conflict means that a newer version follows.
            let mut status = json!(status);
            for field in ["effect", "reverted", "current", "message"] {
                if status.get(field).is_none() {
                    status[field] = json!(null);
                }
            }
            for field in ["action", "digest"] {
                if status["requests"].get(field).is_none() {
                    status["requests"][field] = json!(null);
                }
            }
            let revision = &state.metadata.resource_version;
            let patch = Patch::Merge(json!({"metadata": {"resourceVersion": revision}, "status": status}));
            let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
        });
    }
}

/// The next status of a node; `None` if nothing changes.
fn answer(state: &NodeState, behaviours: &BTreeMap<(String, String), Behaviour>) -> Option<NodeStateStatus> {
    let old = state.status.clone().unwrap_or_default();
    let mut new = NodeStateStatus { observed_generation: state.metadata.generation, ..old.clone() };
    if new.boot_id.is_empty() {
        "boot-1".clone_into(&mut new.boot_id);
    }
    (new.effect, new.requests, new.reverted) = (
        None,
        Requests { labels: old.requests.labels.clone(), taints: old.requests.taints.clone(), ..Requests::default() },
        None,
    );
    let Some(desired) = &state.spec.desired else {
        new.phase = Phase::Idle;
        return (new != old).then_some(new);
    };
    let digest = &desired.digest;
    let name = state.metadata.name.clone().unwrap_or_default();
    let find = |name: &str| behaviours.get(&(digest.clone(), name.to_owned())).copied();
    let behaviour = find(&name).or_else(|| find("")).unwrap_or(Behaviour::InPlace);
    let is_committed = old.current.as_ref().is_some_and(|current| current.digest == *digest && current.committed);
    let in_force =
        |committed| Some(Current { digest: digest.clone(), generation: 1, source: "NodeState".to_owned(), committed });
    let is_allowed = state.spec.allow.as_ref() == Some(digest);
    let mut ask = |action, effect| {
        new.phase = Phase::Pending;
        new.effect = Some(effect);
        new.requests.action = Some(action);
        new.requests.digest.clone_from(digest);
    };
    match behaviour {
        _ if is_committed => new.phase = Phase::Current,
        Behaviour::Bad => {
            new.phase = Phase::Reverted;
            new.reverted = Some(Reverted { digest: digest.clone(), reason: "the kubelet did not start".to_owned() });
        }
        Behaviour::Drain if !is_allowed => ask(RequestedAction::Drain, Effect::Drain),
        Behaviour::Reboot if !is_allowed => ask(RequestedAction::Reboot, Effect::Reboot),
        Behaviour::Reboot if state.spec.reboot.as_deref() != Some(&old.boot_id) => {
            ask(RequestedAction::Reboot, Effect::Reboot);
            new.current = in_force(false);
        }
        Behaviour::Reboot => {
            let number: Option<u32> = old.boot_id.trim_start_matches("boot-").parse().ok();
            new.boot_id = format!("boot-{}", number.unwrap_or_default() + 1);
            (new.phase, new.current) = (Phase::Current, in_force(true));
        }
        Behaviour::InPlace | Behaviour::Drain => (new.phase, new.current) = (Phase::Current, in_force(true)),
    }
    (new != old).then_some(new)
}
