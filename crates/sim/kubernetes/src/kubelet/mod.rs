//! The kubelets of a world's machines, played by an ordinary client: against the embedded server or against a real one.
//!
//! What a kubelet writes by its own clock, heartbeats and ends of grace, follows the time that [`Kubelets::turn`] is given: wall
//! time, which clients and a real cluster's controllers share. When a machine is up follows the world's time.

mod announced;
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
    Disks, INSPECT, INSTALL_FIRST_BOOT, RESULT_ANNOTATION, RESULT_KEY, SECRET_ANNOTATION, SECRET_KEY, TASK_LABEL,
    VERSION_ANNOTATION,
};

/// How often a kubelet renews its lease, by default.
const RENEW: SignedDuration = SignedDuration::from_secs(10);

/// How often a kubelet writes its status when nothing changed: the server takes the lease for a sign of life in between.
const REPORT: SignedDuration = SignedDuration::from_mins(5);

const LEASES: &str = "kube-node-lease";

/// What a kubelet could not do. It tries again at the next turn.
#[derive(Debug, thiserror::Error)]
#[error("kubelet of {node}: {what}: {source}")]
pub struct KubeletError {
    pub node: String,
    /// What it wanted to do.
    pub what: &'static str,
    /// Why it could not.
    pub source: Box<kube::Error>,
}

/// The kubelets of all machines of a world.
pub struct Kubelets {
    client: Client,
    /// By VM id: two machines may go by one name.
    known: BTreeMap<String, Known>,
    disks: Option<Arc<dyn Disks>>,
    /// Nodes that nobody goes by any more and that could not be removed yet.
    left: BTreeSet<String>,
}

/// What one kubelet remembers.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The name that it goes by.
    node: String,
    /// The boot that it registered in.
    boots: u32,
    ready: Option<bool>,
    renewed: Option<Timestamp>,
    reported: Option<Timestamp>,
    /// The pods that run, by uid. After a boot it is none.
    running: BTreeSet<String>,
}

impl std::fmt::Debug for Kubelets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kubelets").field("known", &self.known).finish_non_exhaustive()
    }
}

type Done = Result<(), KubeletError>;

impl Kubelets {
    /// Kubelets that speak by this client.
    pub fn new(client: Client) -> Self {
        Self { client, known: BTreeMap::new(), disks: None, left: BTreeSet::new() }
    }

    /// The same, with a way to the disks of the machines: for pods that are announced to write there.
    #[must_use]
    pub fn with_disks(self, disks: Arc<dyn Disks>) -> Self {
        Self { disks: Some(disks), ..self }
    }

    /// Everything that is due at `now` for the machines as they are. What did not work is told and tried again next time.
    pub async fn turn(&mut self, machines: &[MachineView], now: Timestamp) -> Vec<KubeletError> {
        let mut problems = Vec::new();
        let mut keep = |done: Done| problems.extend(done.err());
        let pods = match self.pods().await {
            Ok(pods) => pods,
            Err(source) => return vec![failed("all nodes", "list pods")(source)],
        };
        let mut alive = BTreeSet::new();
        let mut left = std::mem::take(&mut self.left);
        for machine in machines {
            let name = node::name(machine);
            alive.insert(machine.vm_id.as_str());
            let mut known = self.known.remove(&machine.vm_id).unwrap_or_default();
            if known.node != name {
                left.extend(Some(known.node).filter(|node| !node.is_empty()));
                known = Known { node: name.clone(), ..Known::default() };
            }
            let own = pods.get(&name).map_or(&[][..], Vec::as_slice);
            keep(self.one(machine, &name, &mut known, own, now).await);
            self.known.insert(machine.vm_id.clone(), known);
        }
        // The cloud's controller takes the Node of a machine that is gone, and its pods go with it.
        let gone: Vec<String> = self.known.keys().filter(|id| !alive.contains(id.as_str())).cloned().collect();
        left.extend(gone.iter().filter_map(|id| self.known.remove(id)).map(|known| known.node));
        // Not while another machine goes by its name.
        left.retain(|name| !self.known.values().any(|known| known.node == *name));
        for name in std::mem::take(&mut left) {
            let done = self.remove(&name, pods.get(&name).map_or(&[][..], Vec::as_slice)).await;
            if done.is_err() {
                left.insert(name);
            }
            keep(done);
        }
        self.left = left;
        problems
    }

    async fn one(&self, machine: &MachineView, name: &str, known: &mut Known, pods: &[Value], now: Timestamp) -> Done {
        let joins = machine.cannot_join.is_none();
        if machine.power == PowerView::On && machine.up && joins {
            if known.boots != machine.boots || known.ready.is_none() {
                self.register(machine, name, now).await?;
                *known = Known { node: name.to_owned(), boots: machine.boots, ..Known::default() };
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
        // A machine that is told to stop says so while it still can. One that lost power says nothing.
        if known.ready == Some(true) {
            if machine.power != PowerView::On {
                self.report(machine, name, State::NotReady("node is shutting down"), now).await?;
            }
            known.ready = Some(false);
            known.running.clear();
        }
        Ok(())
    }

    /// All pods that have a node, by its name.
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

    /// Makes the Node, or finds it again after a boot.
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
        known: &mut Known,
        pods: &[Value],
        now: Timestamp,
    ) -> Done {
        for one in pods {
            let uid = crate::meta::uid(one).to_owned();
            let api: Api<Pod> = Api::namespaced(self.client.clone(), crate::meta::namespace(one));
            let pod_name = crate::meta::name(one);
            if pod::is_waiting(one)
                && let Some(task) = task::of(one, machine)
            {
                let outcome = self.carry_out(task, machine, name, crate::meta::namespace(one)).await?;
                let patch = json!({"status": task::ended(one, &outcome, &crate::meta::time(now))});
                let patched = api.patch_status(pod_name, &PatchParams::default(), &Patch::Strategic(patch)).await;
                ignore_missing(patched.map(drop)).map_err(failed(name, "end a task"))?;
                continue;
            }
            match pod::next(one, known.running.contains(&uid), machine.address, now) {
                pod::Act::Nothing => {}
                pod::Act::Run(status) => {
                    let patch = Patch::Strategic(json!({"status": status}));
                    let patched = api.patch_status(pod_name, &PatchParams::default(), &patch).await;
                    ignore_missing(patched.map(drop)).map_err(failed(name, "start a pod"))?;
                    known.running.insert(uid);
                }
                pod::Act::End => {
                    // Not the pod of the same name that came after it.
                    let params = DeleteParams {
                        grace_period_seconds: Some(0),
                        preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                        ..DeleteParams::default()
                    };
                    let ended = api.delete(pod_name, &params).await;
                    ignore_missing(ended.map(drop)).map_err(failed(name, "end a pod"))?;
                    known.running.remove(&uid);
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

/// Gives a cluster of one's own the daemon set that every cluster has: an agent on each node.
pub async fn furnish(client: &Client) -> Result<(), kube::Error> {
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

/// What is gone, or is another one by now, needs nothing more.
fn ignore_missing(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}

fn failed(node: &str, what: &'static str) -> impl Fn(kube::Error) -> KubeletError {
    let node = node.to_owned();
    move |source| KubeletError { node: node.clone(), what, source: Box::new(source) }
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, kube::Error> {
    serde_json::from_value(value).map_err(kube::Error::SerdeError)
}

/// Kubernetes' form of a time with microseconds.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
