//! Simulated kubelets for the machines of an embedded Azure. They use an ordinary client, so they work with the embedded server and with
//! a real one.
//!
//! Heartbeats and grace periods follow the time that is passed to [`Kubelets::turn`]: wall time, which clients and the controllers of a
//! real cluster share. Whether a machine is up follows the time of the embedded Azure.

mod execute;
mod freeze;
mod node;
mod pod;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kiln_sim_azure::{MachineView, PowerView};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use node::State;
pub use task::{
    Disks, FREEZE, INSPECT, INSTALL_FIRST_BOOT, RESULT_ANNOTATION, RESULT_KEY, SECRET_ANNOTATION, SECRET_KEY,
    TASK_LABEL, THAW, THAW_KEY, VERSION_ANNOTATION,
};

/// The default interval of lease renewals.
const RENEW: SignedDuration = SignedDuration::from_secs(10);

/// The interval of unchanged status reports. In between, the lease is the heartbeat.
const REPORT: SignedDuration = SignedDuration::from_mins(5);

const LEASES: &str = "kube-node-lease";

/// A failed action of a kubelet. It is retried at the next turn.
#[derive(Debug, thiserror::Error)]
#[error("kubelet of {node}: {action}: {source}")]
pub struct KubeletError {
    pub node: String,
    pub action: &'static str,
    pub source: Box<kube::Error>,
}

/// The kubelets of all machines.
pub struct Kubelets {
    client: Client,
    /// By VM ID: two machines may have the same host name.
    known: BTreeMap<String, KubeletState>,
    disks: Option<Arc<dyn Disks>>,
    /// Nodes without a machine that could not be removed yet.
    orphaned: BTreeSet<String>,
}

/// The state of one kubelet.
#[derive(Debug, Clone, Default)]
struct KubeletState {
    /// Its node name.
    node: String,
    /// The boot in which it registered.
    boots: u32,
    ready: Option<bool>,
    renewed: Option<Timestamp>,
    reported: Option<Timestamp>,
    /// The running pods, by uid; empty after a boot.
    running: BTreeSet<String>,
    freezes: freeze::Freezes,
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kubelets").field("known", &self.known).finish_non_exhaustive()
    }
}

type Done = Result<(), KubeletError>;

impl Kubelets {
    /// Kubelets that use this client.
    pub fn new(client: Client) -> Self {
        Self { client, known: BTreeMap::new(), disks: None, orphaned: BTreeSet::new() }
    }

    /// Gives access to the disks of the machines, for pods that write to them.
    #[must_use]
    pub fn with_disks(self, disks: Arc<dyn Disks>) -> Self {
        Self { disks: Some(disks), ..self }
    }

    /// Does everything that is due at `now`. Failed actions are returned and retried at the next turn.
    pub async fn turn(&mut self, machines: &[MachineView], now: Timestamp) -> Vec<KubeletError> {
        let mut problems = Vec::new();
        let mut keep = |done: Done| problems.extend(done.err());
        let pods = match self.pods().await {
            Ok(pods) => pods,
            Err(source) => return vec![failed("all nodes", "list pods")(source)],
        };
        let mut alive = BTreeSet::new();
        let mut orphaned = std::mem::take(&mut self.orphaned);
        for machine in machines {
            let name = machine.node_name();
            alive.insert(machine.vm_id.as_str());
            let mut known = self.known.remove(&machine.vm_id).unwrap_or_default();
            if known.node != name {
                orphaned.extend(Some(known.node).filter(|node| !node.is_empty()));
                known = KubeletState { node: name.clone(), ..KubeletState::default() };
            }
            let own = pods.get(&name).map_or(&[][..], Vec::as_slice);
            keep(self.sync_node(machine, &name, &mut known, own, now).await);
            self.known.insert(machine.vm_id.clone(), known);
        }
        // The cloud controller removes the Node of a deleted machine, and its pods with it.
        let gone: Vec<String> = self.known.keys().filter(|id| !alive.contains(id.as_str())).cloned().collect();
        orphaned.extend(gone.iter().filter_map(|id| self.known.remove(id)).map(|known| known.node));
        // Not while another machine has its name.
        orphaned.retain(|name| !self.known.values().any(|known| known.node == *name));
        for name in std::mem::take(&mut orphaned) {
            let done = self.remove(&name, pods.get(&name).map_or(&[][..], Vec::as_slice)).await;
            if done.is_err() {
                orphaned.insert(name);
            }
            keep(done);
        }
        self.orphaned = orphaned;
        problems
    }

    async fn sync_node(
        &self,
        machine: &MachineView,
        name: &str,
        known: &mut KubeletState,
        pods: &[Value],
        now: Timestamp,
    ) -> Done {
        let joins = machine.cannot_join.is_none();
        if machine.power == PowerView::On && machine.up && joins {
            if known.boots != machine.boots || known.ready.is_none() {
                self.register(machine, name, now).await?;
                *known = KubeletState { node: name.to_owned(), boots: machine.boots, ..KubeletState::default() };
            }
            let ready = machine.never_ready.is_none();
            if known.ready != Some(ready) || known.reported.is_none_or(|at| now >= at + REPORT) {
                let state = machine.never_ready.as_deref().map_or(State::Ready, State::NotReady);
                self.report(machine, name, state, now).await?;
                (known.ready, known.reported) = (Some(ready), Some(now));
            }
            if known.renewed.is_none_or(|at| now >= at + RENEW) {
                self.renew(name, now).await?;
                known.renewed = Some(now);
            }
            return self.run_pods(machine, name, known, pods, now).await;
        }
        // A machine that is shutting down reports it. One that lost power cannot.
        if known.ready == Some(true) {
            if machine.power != PowerView::On {
                self.report(machine, name, State::NotReady("node is shutting down"), now).await?;
            }
            known.ready = Some(false);
            known.running.clear();
        }
        Ok(())
    }

    /// All bound pods, by node name.
    async fn pods(&self) -> Result<BTreeMap<String, Vec<Value>>, kube::Error> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut by_node: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let bound = ListParams::default().fields("spec.nodeName!=");
        for pod in api.list(&bound).await?.items {
            let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
            by_node.entry(node).or_default().push(serde_json::to_value(pod).map_err(kube::Error::SerdeError)?);
        }
        Ok(by_node)
    }

    /// Creates the Node, or reuses it after a boot.
    async fn register(&self, machine: &MachineView, name: &str, now: Timestamp) -> Done {
        let fail = failed(name, "register");
        let api: Api<Node> = Api::all(self.client.clone());
        let node = typed(node::object(machine)).map_err(&fail)?;
        match api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(fail(error)),
        }
        for mirror in node::mirror_pods(machine, now) {
            let found = api.get(name).await.map_err(&fail)?;
            let owned = node::owned(mirror, found.metadata.uid.as_deref().unwrap_or_default());
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
            match pods.create(&PostParams::default(), &typed(owned).map_err(&fail)?).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(())
    }

    async fn report(&self, machine: &MachineView, name: &str, state: State<'_>, now: Timestamp) -> Done {
        let fail = failed(name, "report its status");
        let api: Api<Node> = Api::all(self.client.clone());
        let before = api.get(name).await.map_err(&fail)?;
        let before = serde_json::to_value(before).map_err(|error| fail(kube::Error::SerdeError(error)))?;
        let status = json!({"status": node::status(machine, &before, state, now)});
        api.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await.map_err(&fail)?;
        Ok(())
    }

    async fn renew(&self, name: &str, now: Timestamp) -> Done {
        let fail = failed(name, "renew its lease");
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro(now)});
        let patch = Patch::Merge(json!({"spec": spec}));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let lease = json!({"metadata": {"name": name, "namespace": LEASES}, "spec": spec});
                api.create(&PostParams::default(), &typed(lease).map_err(&fail)?).await.map_err(&fail)?;
                Ok(())
            }
            Err(error) => Err(fail(error)),
        }
    }

    async fn run_pods(
        &self,
        machine: &MachineView,
        name: &str,
        known: &mut KubeletState,
        pods: &[Value],
        now: Timestamp,
    ) -> Done {
        for one in pods {
            let uid = crate::meta::uid(one).to_owned();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), crate::meta::namespace(one));
            let pod_name = crate::meta::name(one);
            if pod::is_active(one)
                && let Some(task) = task::from_pod(one, machine, &known.freezes)
            {
                let outcome = self.execute(task, machine, name, crate::meta::namespace(one)).await?;
                let patch = json!({"status": task::ended_status(one, &outcome, &crate::meta::time(now))});
                let patched = api.patch_status(pod_name, &PatchParams::default(), &Patch::Strategic(patch)).await;
                ignore_missing(patched.map(drop)).map_err(failed(name, "end a task"))?;
                continue;
            }
            match pod::next(one, known.running.contains(&uid), machine.address, now) {
                pod::PodAction::Nothing => {}
                pod::PodAction::Run(status) => {
                    let patch = Patch::Strategic(json!({"status": status}));
                    let patched = api.patch_status(pod_name, &PatchParams::default(), &patch).await;
                    ignore_missing(patched.map(drop)).map_err(failed(name, "start a pod"))?;
                    if known.running.insert(uid) {
                        known.freezes.start(one, now);
                    }
                }
                pod::PodAction::End => {
                    // Not a new pod of the same name.
                    let params = DeleteParams {
                        grace_period_seconds: Some(0),
                        preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                        ..DeleteParams::default()
                    };
                    let ended = api.delete(pod_name, &params).await;
                    ignore_missing(ended.map(drop)).map_err(failed(name, "end a pod"))?;
                    known.running.remove(&uid);
                    known.freezes.end(one, now);
                }
            }
        }
        Ok(())
    }

    async fn remove(&self, name: &str, pods: &[Value]) -> Done {
        let api: Api<Node> = Api::all(self.client.clone());
        let removed = api.delete(name, &DeleteParams::default()).await.map(drop);
        ignore_missing(removed).map_err(failed(name, "remove the node"))?;
        for pod in pods {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), crate::meta::namespace(pod));
            let gone = api.delete(crate::meta::name(pod), &DeleteParams::default().grace_period(0)).await.map(drop);
            ignore_missing(gone).map_err(failed(name, "remove a pod"))?;
        }
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let gone = leases.delete(name, &DeleteParams::default()).await.map(drop);
        ignore_missing(gone).map_err(failed(name, "remove its lease"))
    }
}

/// Creates a `DaemonSet` with an agent on each node, as every cluster has some.
pub async fn create_node_agent(client: &Client) -> Result<(), kube::Error> {
    let labels = json!({"app": "node-agent"});
    let set = json!({
        "metadata": {"name": "node-agent", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "agent", "image": "node-agent:1"}],
        }}},
    });
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), "kube-system");
    match api.create(&PostParams::default(), &typed(set)?).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

/// An object that is gone, or was replaced, needs no further action.
fn ignore_missing(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}

fn failed(node: &str, action: &'static str) -> impl Fn(kube::Error) -> KubeletError {
    let node = node.to_owned();
    move |source| KubeletError { node: node.clone(), action, source: Box::new(source) }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, kube::Error> {
    serde_json::from_value(value).map_err(kube::Error::SerdeError)
}

/// The format of Kubernetes timestamps with microseconds.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
