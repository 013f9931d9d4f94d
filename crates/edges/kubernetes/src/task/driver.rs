//! A task's life: announced, run, read, and removed whatever came of it.
//!
//! A pod has no account, so that it can write nothing into the cluster: what it found is one line of its log. Custom data is closed there
//! for this very errand, since logs are read, kept and shipped by others. Where a world plays the node there is no log, and what was found
//! lies in objects that the pod names.

use std::time::Duration;

use futures_util::AsyncReadExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use kiln_node_plan::Findings;
use kiln_tls::Reader;
use kiln_types::{CustomData, Inspection, Node, SecretBytes};
use kube::api::{DeleteParams, LogParams, PostParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::pod::{Order, RESULT_KEY, SECRET_RESULT_KEY, SIMULATED_ANNOTATION, Task, TaskImage, object_of};
use crate::call::PATIENCE;
use crate::event::{EventKind, NodeEvent};
use crate::name::{Namespace, Owner};
use crate::{Cluster, Error};

const POLL: Duration = Duration::from_millis(500);
/// Another run that asks about the same node takes the pod away. Two that do so to each other are not ended by a third try.
const TRIES: u32 = 3;
/// Findings are one line: some thousand packages of 60 bytes, some hundred images, and custom data, which Azure limits to 64 KiB. What is
/// much longer is not kilnd's.
const LONGEST_LOG: u64 = 4 << 20;

/// One task on one node.
pub(super) struct Errand<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: &'a Namespace,
    pub(super) image: &'a TaskImage,
    pub(super) within: Duration,
    pub(super) task: Task,
    pub(super) node: &'a Node,
    pub(super) run: &'a Owner,
}

/// What a task's pod left: nothing, where it had nothing to say.
pub(super) struct Found {
    pub(super) inspection: Option<Inspection>,
}

/// What a task leaves in the cluster while it runs.
#[derive(Clone)]
struct Traces {
    cluster: Cluster,
    pods: Api<Pod>,
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    name: String,
    task: Task,
}

/// Removes the traces when the task is dropped half-way, by a task of the runtime; without one, the next run on the node does it.
struct Guard(Option<Traces>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let (Some(traces), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { traces.remove().await });
        }
    }
}

impl Errand<'_> {
    /// Runs the pod to its end, takes what it found, and removes everything, whatever came of it.
    pub(super) async fn carry_out(&self) -> Result<Found, Error> {
        let traces = self.traces();
        let mut guard = Guard(Some(traces.clone()));
        traces.remove().await?;
        self.announce().await;
        let outcome = self.run_pod(&traces).await;
        let removed = traces.remove().await;
        guard.0 = None;
        // What went wrong first is what a person needs to know.
        let found = outcome?;
        removed?;
        Ok(found)
    }

    fn traces(&self) -> Traces {
        let (client, place) = (self.cluster.client.clone(), self.namespace.as_str());
        Traces {
            cluster: self.cluster.clone(),
            pods: Api::namespaced(client.clone(), place),
            maps: Api::namespaced(client.clone(), place),
            secrets: Api::namespaced(client, place),
            name: object_of(self.task, &self.node.name),
            task: self.task,
        }
    }

    /// Whether a world plays the node.
    fn is_simulated(&self) -> bool {
        self.node.annotations.get(SIMULATED_ANNOTATION).is_some_and(|value| value == "true")
    }

    fn failed(&self, why: String) -> Error {
        let pod = format!("{}/{}", self.namespace, object_of(self.task, &self.node.name));
        Error::TaskFailed { node: self.node.name.clone(), task: self.task, pod, why }
    }

    async fn announce(&self) {
        let (action, reason) = match self.task {
            Task::Inspect => ("Inspect", "Inspecting"),
            Task::InstallFirstBoot => ("InstallFirstBoot", "InstallingFirstBoot"),
        };
        let (place, pod) = (self.namespace, object_of(self.task, &self.node.name));
        let note = format!("pod {place}/{pod} {}", self.task.announcement());
        let event = NodeEvent { kind: EventKind::Normal, action, reason, note };
        // An event is no record: the pod says the same of itself.
        let _ = self.cluster.tell(self.node, self.run, &event).await;
    }

    async fn run_pod(&self, traces: &Traces) -> Result<Found, Error> {
        let reader = Reader::new().map_err(|error| self.failed(error.to_string()))?;
        let (task, node, run, place) = (self.task, &self.node.name, self.run, self.namespace);
        let pod = Order { task, node, run, place, image: self.image, within: self.within }.pod(&reader.key());
        let deadline = Instant::now() + self.within;
        let what = format!("create pod `{}/{}`", self.namespace, traces.name);
        let params = PostParams::default();
        for _ in 0..TRIES {
            match self.cluster.persist(&what, deadline, || traces.pods.create(&params, &pod)).await {
                Ok(_) => {
                    self.wait(traces, deadline).await?;
                    let inspection = match self.task {
                        Task::Inspect if self.is_simulated() => Some(traces.findings(self).await?),
                        Task::Inspect => Some(traces.logged(self, reader).await?),
                        Task::InstallFirstBoot => None,
                    };
                    return Ok(Found { inspection });
                }
                // Somebody's that came between, or ours whose answer was lost: whose it is does not show, so it is begun anew.
                Err(error) if error.conflict() => traces.remove().await?,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { what, attempts: TRIES })
    }

    async fn wait(&self, traces: &Traces, deadline: Instant) -> Result<(), Error> {
        let failed = |why: String| self.failed(why);
        let what = format!("get pod `{}/{}`", self.namespace, traces.name);
        loop {
            let pod = self.cluster.persist(&what, deadline, || traces.pods.get_opt(&traces.name)).await?;
            let Some(pod) = pod else { return Err(failed("somebody removed it".to_owned())) };
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded") => return Ok(()),
                Some("Failed") => return Err(failed(format!("it failed: {}", words(&status)))),
                _ if Instant::now() >= deadline => {
                    let waited = self.within.as_secs();
                    return Err(failed(format!("it has not ended after {waited} s: {}", words(&status))));
                }
                _ => sleep(POLL).await,
            }
        }
    }
}

/// Adds the custom data, where it is what the findings speak of.
fn complete(found: &mut Inspection, bytes: SecretBytes) {
    let whole = CustomData::found(bytes);
    if whole.sha256() == found.custom_data.sha256() {
        found.custom_data = whole;
    }
}

/// What a pod's status says, from the most to the least telling.
fn words(status: &PodStatus) -> String {
    let containers = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    let said = containers
        .flat_map(|state| {
            let ended = state.terminated.as_ref().map(|t| (t.reason.clone(), t.message.clone()));
            let waits = state.waiting.as_ref().map(|w| (w.reason.clone(), w.message.clone()));
            [ended, waits]
        })
        .flatten()
        .chain([(status.reason.clone(), status.message.clone())]);
    let mut told = said.filter_map(|(reason, message)| match (reason, message) {
        (None, None) => None,
        (reason, message) => Some([reason, message].into_iter().flatten().collect::<Vec<_>>().join(": ")),
    });
    told.next().unwrap_or_else(|| format!("its phase is `{}`", status.phase.as_deref().unwrap_or("unknown")))
}

impl Traces {
    /// What the pod found, with the custom data that only a Secret may hold, where it is what the pod spoke of.
    async fn findings(&self, run: &Errand<'_>) -> Result<Inspection, Error> {
        let what = format!("read what pod `{}/{}` found", run.namespace, self.name);
        let deadline = Instant::now() + PATIENCE;
        let map = self.cluster.persist(&what, deadline, || self.maps.get_opt(&self.name)).await?;
        let text = map.and_then(|map| map.data).and_then(|mut data| data.remove(RESULT_KEY));
        let Some(text) = text else {
            return Err(run.failed(format!("it left no `{RESULT_KEY}` in ConfigMap `{}`", self.name)));
        };
        let mut found: Inspection = serde_json::from_str(&text).map_err(|source| Error::BadContent { what, source })?;
        if let Some(bytes) = self.custom_data().await? {
            complete(&mut found, bytes);
        }
        Ok(found)
    }

    /// What the pod found, by its log: one line of it is the findings, with the custom data that this errand alone can open.
    async fn logged(&self, run: &Errand<'_>, reader: Reader) -> Result<Inspection, Error> {
        let what = format!("read the log of pod `{}/{}`", run.namespace, self.name);
        let deadline = Instant::now() + PATIENCE;
        let text = self.cluster.persist(&what, deadline, || self.log(run.task)).await?;
        if text.len() as u64 > LONGEST_LOG {
            return Err(run.failed(format!("its log is longer than {} MiB", LONGEST_LOG >> 20)));
        }
        let Some(line) = text.lines().rfind(|line| line.starts_with('{')) else {
            return Err(run.failed("its log holds no findings".to_owned()));
        };
        let findings: Findings = serde_json::from_str(line).map_err(|source| Error::BadContent { what, source })?;
        let mut found = findings.inspection;
        if let Some(letter) = findings.sealed_custom_data {
            let bytes = reader.open(&letter).map_err(|error| run.failed(format!("its custom data: {error}")))?;
            complete(&mut found, SecretBytes::new(bytes));
        }
        Ok(found)
    }

    /// The log, as far as it may be long.
    async fn log(&self, task: Task) -> kube::Result<String> {
        let limit_bytes = i64::try_from(LONGEST_LOG + 1).ok();
        let params = LogParams { container: Some(task.word().to_owned()), limit_bytes, ..LogParams::default() };
        // Whoever answers for the kubelet may send more than it was asked for.
        let mut bytes = Vec::new();
        let stream = self.pods.log_stream(&self.name, &params).await?;
        stream.take(LONGEST_LOG + 1).read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn custom_data(&self) -> Result<Option<SecretBytes>, Error> {
        let what = format!("read secret `{}`", self.name);
        let deadline = Instant::now() + PATIENCE;
        let secret = self.cluster.persist(&what, deadline, || self.secrets.get_opt(&self.name)).await?;
        let bytes = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(SECRET_RESULT_KEY));
        Ok(bytes.map(|bytes| SecretBytes::new(bytes.0)))
    }

    /// Removes the pod and what it wrote, and waits until the pod is gone: another one could not have its name before.
    async fn remove(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let pod = self.gone(&self.pods, deadline, DeleteParams::default().grace_period(0)).await;
        if self.task == Task::Inspect {
            self.gone(&self.maps, deadline, DeleteParams::default()).await?;
            self.gone(&self.secrets, deadline, DeleteParams::default()).await?;
        }
        pod
    }

    /// Removes an object by uid until none of its name is there.
    async fn gone<K>(&self, api: &Api<K>, deadline: Instant, params: DeleteParams) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let kind = K::kind(&());
        let what = format!("remove {kind} `{}`", self.name);
        loop {
            let Some(found) = self.cluster.persist(&what, deadline, || api.get_opt(&self.name)).await? else {
                return Ok(());
            };
            let meta = found.meta();
            if meta.deletion_timestamp.is_none() {
                let one = Preconditions { uid: meta.uid.clone(), resource_version: None };
                let params = params.clone().preconditions(one);
                match self.cluster.persist(&what, deadline, || api.delete(&self.name, &params)).await {
                    Ok(_) => continue,
                    Err(error) if error.not_found() || error.conflict() => continue,
                    Err(error) => return Err(error),
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::Contended { what, attempts: 1 });
            }
            sleep(POLL).await;
        }
    }
}
