//! The life cycle of a task: announce, run, read the result, and always clean up.
//!
//! The pod has no service account and cannot write to the cluster: its findings are one line of its log. Custom data in that line is
//! encrypted to a key of this one task, because logs are collected and shipped elsewhere. Simulated nodes have no logs; their findings are
//! in objects that the pod's annotations name.

use std::time::Duration;

use futures_util::AsyncReadExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use kiln_node_plan::Findings;
use kiln_tls::{Reader, SystemRandom};
use kiln_types::{CustomData, Inspection, Node, SecretBytes, ThawReport};
use kube::api::{DeleteParams, LogParams, PostParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::pod::{SECRET_RESULT_KEY, SIMULATED_ANNOTATION, Task, TaskImage, TaskSpec, task_object_name};
use crate::event::{EventKind, NodeEvent};
use crate::name::{Namespace, Owner};
use crate::request::RETRY_FOR;
use crate::watch::Watched;
use crate::{Cluster, Error};

/// Interval of reads while a pod cannot be watched.
const POLL: Duration = Duration::from_millis(500);
/// Another run that inspects the same node removes the pod. If two runs keep doing that to each other, a third attempt does not help.
const TRIES: u32 = 3;
/// Findings are one line: a few thousand packages of 60 bytes, a few hundred images, and custom data, which Azure limits to 64 KiB.
/// Anything much longer was not written by kilnd.
const LONGEST_LOG: u64 = 4 << 20;

/// One task on one node.
pub(super) struct TaskRun<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: &'a Namespace,
    pub(super) image: &'a TaskImage,
    pub(super) within: Duration,
    pub(super) task: Task,
    pub(super) node: &'a Node,
    pub(super) run: &'a Owner,
}

/// The result of a task.
#[derive(Default)]
pub(super) struct TaskResult {
    pub(super) inspection: Option<Inspection>,
    pub(super) thaw: Option<ThawReport>,
}

/// The objects of a task in the cluster.
#[derive(Clone)]
pub(super) struct TaskObjects {
    pub(super) cluster: Cluster,
    pub(super) pods: Api<Pod>,
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    pub(super) name: String,
    task: Task,
}

/// Removes the objects if the task is dropped half-way, in a spawned tokio task; without a runtime, the next run on the node removes them.
pub(super) struct Guard(pub(super) Option<TaskObjects>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let (Some(objects), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { objects.remove().await });
        }
    }
}

impl TaskRun<'_> {
    /// Runs the pod to its end, reads its result, and removes all objects in any case.
    pub(super) async fn execute(&self) -> Result<TaskResult, Error> {
        let objects = self.objects();
        let mut guard = Guard(Some(objects.clone()));
        objects.remove().await?;
        self.announce().await;
        let outcome = self.run_pod(&objects).await;
        let removed = objects.remove().await;
        guard.0 = None;
        // The first error is the one to report.
        let result = outcome?;
        removed?;
        Ok(result)
    }

    /// Removes what an earlier task of this kind left on the node.
    pub(super) async fn remove(&self) -> Result<(), Error> {
        self.objects().remove().await
    }

    pub(super) fn objects(&self) -> TaskObjects {
        let (client, namespace) = (self.cluster.client.clone(), self.namespace.as_str());
        TaskObjects {
            cluster: self.cluster.clone(),
            pods: Api::namespaced(client.clone(), namespace),
            maps: Api::namespaced(client.clone(), namespace),
            secrets: Api::namespaced(client, namespace),
            name: task_object_name(self.task, &self.node.name),
            task: self.task,
        }
    }

    /// Whether the node belongs to the embedded Kubernetes.
    fn is_simulated(&self) -> bool {
        self.node.annotations.get(SIMULATED_ANNOTATION).is_some_and(|value| value == "true")
    }

    pub(super) fn failed(&self, reason: String) -> Error {
        let pod = format!("{}/{}", self.namespace, task_object_name(self.task, &self.node.name));
        Error::TaskFailed { node: self.node.name.clone(), task: self.task, pod, reason }
    }

    pub(super) async fn announce(&self) {
        let (action, reason) = match self.task {
            Task::Inspect => ("Inspect", "Inspecting"),
            Task::InstallFirstBoot => ("InstallFirstBoot", "InstallingFirstBoot"),
            Task::Freeze => ("Freeze", "Freezing"),
            Task::Thaw => ("Thaw", "Thawing"),
        };
        let (namespace, pod) = (self.namespace, task_object_name(self.task, &self.node.name));
        let note = format!("pod {namespace}/{pod} {}", self.task.announcement());
        let event = NodeEvent { kind: EventKind::Normal, action, reason, note };
        // Events are best effort; the pod carries the same text as an annotation.
        let _ = self.cluster.record_event(self.node, self.run, &event).await;
    }

    async fn run_pod(&self, objects: &TaskObjects) -> Result<TaskResult, Error> {
        let reader = Reader::new(&SystemRandom::new()).map_err(|error| self.failed(error.to_string()))?;
        let deadline = Instant::now() + self.within;
        self.create_pod(objects, &reader.key(), deadline).await?;
        self.wait(objects, deadline).await?;
        let mut result = TaskResult::default();
        match self.task {
            Task::Inspect if self.is_simulated() => result.inspection = Some(objects.findings(self).await?),
            Task::Inspect => result.inspection = Some(objects.logged(self, reader).await?),
            Task::Thaw => result.thaw = Some(objects.thaw_report(self).await?),
            Task::InstallFirstBoot | Task::Freeze => {}
        }
        Ok(result)
    }

    /// Creates the pod of the task.
    pub(super) async fn create_pod(&self, objects: &TaskObjects, key: &str, deadline: Instant) -> Result<Pod, Error> {
        let (task, node, run, namespace) = (self.task, &self.node.name, self.run, self.namespace);
        let pod = TaskSpec { task, node, run, namespace, image: self.image, within: self.within }.pod(key);
        let action = format!("create pod `{}/{}`", self.namespace, objects.name);
        let params = PostParams::default();
        for _ in 0..TRIES {
            match self.cluster.retry(&action, deadline, || objects.pods.create(&params, &pod)).await {
                Ok(created) => return Ok(created),
                // Another run's pod, or ours after a lost response. The two cannot be distinguished, so start over.
                Err(error) if error.is_conflict() => objects.remove().await?,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Contended { action, attempts: TRIES })
    }

    async fn wait(&self, objects: &TaskObjects, deadline: Instant) -> Result<(), Error> {
        let failed = |reason: String| self.failed(reason);
        let action = format!("get pod `{}/{}`", self.namespace, objects.name);
        let mut was_missing = false;
        loop {
            let pod = self.cluster.retry(&action, deadline, || objects.pods.get_opt(&objects.name)).await?;
            let Some(pod) = pod else {
                if was_missing {
                    return Err(failed("it was removed by another process".to_owned()));
                }
                // Another run that inspects the node replaces the pod by its own, which does the same.
                was_missing = true;
                sleep(POLL).await;
                continue;
            };
            let revision = pod.metadata.resource_version.unwrap_or_default();
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded") => return Ok(()),
                Some("Failed") => return Err(failed(format!("it failed: {}", explain(&status)))),
                _ if Instant::now() >= deadline => {
                    let waited = self.within.as_secs();
                    return Err(failed(format!("it has not ended after {waited} s: {}", explain(&status))));
                }
                _ => objects.wait_for_change(&objects.pods, &revision, deadline).await?,
            }
        }
    }
}

/// Adds the custom data if its hash matches the findings.
fn complete(found: &mut Inspection, bytes: SecretBytes) {
    let whole = CustomData::found(bytes);
    if whole.sha256() == found.custom_data.sha256() {
        found.custom_data = whole;
    }
}

/// The most specific explanation in a pod's status.
pub(crate) fn explain(status: &PodStatus) -> String {
    let containers = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    let reasons = containers
        .flat_map(|state| {
            let ended = state.terminated.as_ref().map(|t| (t.reason.clone(), t.message.clone()));
            let waits = state.waiting.as_ref().map(|w| (w.reason.clone(), w.message.clone()));
            [ended, waits]
        })
        .flatten()
        .chain([(status.reason.clone(), status.message.clone())]);
    let mut reasons = reasons.filter_map(|(reason, message)| match (reason, message) {
        (None, None) => None,
        (reason, message) => Some([reason, message].into_iter().flatten().collect::<Vec<_>>().join(": ")),
    });
    reasons.next().unwrap_or_else(|| format!("its phase is `{}`", status.phase.as_deref().unwrap_or("unknown")))
}

impl TaskObjects {
    /// The findings of a simulated node, with the custom data from the Secret if its hash matches.
    async fn findings(&self, run: &TaskRun<'_>) -> Result<Inspection, Error> {
        let mut found: Inspection = self.result_in_map(run).await?;
        if let Some(bytes) = self.custom_data().await? {
            complete(&mut found, bytes);
        }
        Ok(found)
    }

    /// The findings from the pod's log: one line of JSON, with custom data that only this task's key can decrypt.
    async fn logged(&self, run: &TaskRun<'_>, reader: Reader) -> Result<Inspection, Error> {
        let findings: Findings = self.result_in_log(run).await?;
        let mut found = findings.inspection;
        if let Some(sealed) = findings.sealed_custom_data {
            let bytes = reader.open(&sealed).map_err(|error| run.failed(format!("its custom data: {error}")))?;
            complete(&mut found, SecretBytes::new(bytes));
        }
        Ok(found)
    }

    async fn thaw_report(&self, run: &TaskRun<'_>) -> Result<ThawReport, Error> {
        if run.is_simulated() { self.result_in_map(run).await } else { self.result_in_log(run).await }
    }

    /// The result of a simulated node.
    async fn result_in_map<T: DeserializeOwned>(&self, run: &TaskRun<'_>) -> Result<T, Error> {
        let action = format!("read the findings of pod `{}/{}`", run.namespace, self.name);
        let deadline = Instant::now() + RETRY_FOR;
        let map = self.cluster.retry(&action, deadline, || self.maps.get_opt(&self.name)).await?;
        let key = run.task.result_key().unwrap_or_default();
        let Some(text) = map.and_then(|map| map.data).and_then(|mut data| data.remove(key)) else {
            return Err(run.failed(format!("it left no `{key}` in ConfigMap `{}`", self.name)));
        };
        serde_json::from_str(&text).map_err(|source| Error::BadContent { action, source })
    }

    /// The result in the pod's log: one line of JSON.
    async fn result_in_log<T: DeserializeOwned>(&self, run: &TaskRun<'_>) -> Result<T, Error> {
        let action = format!("read the log of pod `{}/{}`", run.namespace, self.name);
        let deadline = Instant::now() + RETRY_FOR;
        let text = self.cluster.retry(&action, deadline, || self.log(run.task)).await?;
        if text.len() as u64 > LONGEST_LOG {
            return Err(run.failed(format!("its log is longer than {} MiB", LONGEST_LOG >> 20)));
        }
        let Some(line) = text.lines().rfind(|line| line.starts_with('{')) else {
            return Err(run.failed("its log contains no findings".to_owned()));
        };
        serde_json::from_str(line).map_err(|source| Error::BadContent { action, source })
    }

    /// The log, limited to one byte more than [`LONGEST_LOG`].
    async fn log(&self, task: Task) -> kube::Result<String> {
        let limit_bytes = i64::try_from(LONGEST_LOG + 1).ok();
        let params = LogParams { container: Some(task.as_str().to_owned()), limit_bytes, ..LogParams::default() };
        // The server may send more than `limitBytes`.
        let mut bytes = Vec::new();
        let stream = self.pods.log_stream(&self.name, &params).await?;
        stream.take(LONGEST_LOG + 1).read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn custom_data(&self) -> Result<Option<SecretBytes>, Error> {
        let action = format!("read secret `{}`", self.name);
        let deadline = Instant::now() + RETRY_FOR;
        let secret = self.cluster.retry(&action, deadline, || self.secrets.get_opt(&self.name)).await?;
        let bytes = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove(SECRET_RESULT_KEY));
        Ok(bytes.map(|bytes| SecretBytes::new(bytes.0)))
    }

    /// Removes the pod and its results, and waits until the pod is gone: a new pod cannot have its name before.
    pub(super) async fn remove(&self) -> Result<(), Error> {
        let deadline = Instant::now() + RETRY_FOR;
        let now = match self.task {
            // kilnd thaws the file systems when it receives SIGTERM. The object is gone only when it has.
            Task::Freeze => DeleteParams::default(),
            _ => DeleteParams::default().grace_period(0),
        };
        let pod = self.gone(&self.pods, deadline, now).await;
        if self.task.result_key().is_some() {
            self.gone(&self.maps, deadline, DeleteParams::default()).await?;
        }
        if self.task == Task::Inspect {
            self.gone(&self.secrets, deadline, DeleteParams::default()).await?;
        }
        pod
    }

    /// Deletes an object by uid until no object of its name exists.
    async fn gone<K>(&self, api: &Api<K>, deadline: Instant, params: DeleteParams) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + 'static,
    {
        let kind = K::kind(&());
        let action = format!("remove {kind} `{}`", self.name);
        loop {
            let Some(found) = self.cluster.retry(&action, deadline, || api.get_opt(&self.name)).await? else {
                return Ok(());
            };
            let meta = found.meta();
            if meta.deletion_timestamp.is_none() {
                let one = Preconditions { uid: meta.uid.clone(), resource_version: None };
                let params = params.clone().preconditions(one);
                match self.cluster.retry(&action, deadline, || api.delete(&self.name, &params)).await {
                    Ok(_) => continue,
                    Err(error) if error.is_not_found() || error.is_conflict() => continue,
                    Err(error) => return Err(error),
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::Contended { action, attempts: 1 });
            }
            let revision = meta.resource_version.clone().unwrap_or_default();
            self.wait_for_change(api, &revision, deadline).await?;
        }
    }

    /// Waits until the object changes, at most until `deadline`.
    pub(super) async fn wait_for_change<K>(&self, api: &Api<K>, revision: &str, deadline: Instant) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + 'static,
    {
        let action = format!("watch {} `{}`", K::kind(&()), self.name);
        let fields = format!("metadata.name={}", self.name);
        let watched = Watched { action: &action, api, fields: &fields, revision };
        self.cluster.wait_for_change(watched, |_| true, POLL, deadline).await
    }
}
