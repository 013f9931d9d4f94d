//! A real API server, with tasks that act as kubelet.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use k8s_openapi::api::core::v1::{Node, Pod};
use kiln_kubernetes::{
    Cluster, ClusterOptions, Jitter, NodeName, RESULT_ANNOTATION, RESULT_KEY, SECRET_RESULT_ANNOTATION,
    SECRET_RESULT_KEY, SIMULATED_ANNOTATION, TASK_LABEL, WallClock, connect,
};
use kiln_types::JoinCredential;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::ApiResource;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// While the machine compiles, a step that usually takes a second has taken twenty.
pub(crate) const LONG: Duration = Duration::from_mins(3);

/// A server without controllers, which would delete pods whose owners do not exist. It ends with this process.
pub(crate) fn bare_plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| ControlPlane::start(&Options::bare()).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

pub(crate) fn cluster(config: Config) -> Cluster {
    let clock = WallClock::new(|| "2026-01-02T03:04:05Z".parse().unwrap());
    Cluster::new(connect(config).unwrap(), ClusterOptions { jitter: Jitter::none(), clock })
}

/// A server, with admin credentials.
#[derive(Clone)]
pub(crate) struct RealCluster {
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
}

impl RealCluster {
    pub(crate) async fn connect(plane: &ControlPlane) -> Self {
        let config = config(plane.kubeconfig()).await;
        Self { client: connect(config.clone()).unwrap(), cluster: cluster(config) }
    }

    /// Creates an object of any kind; an existing one is kept.
    pub(crate) async fn create(&self, object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        match api.create(&PostParams::default(), &object).await {
            Ok(created) => created,
            Err(kube::Error::Api(status)) if status.is_already_exists() => object,
            Err(error) => panic!("{object:?}: {error}"),
        }
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
    }

    pub(crate) async fn node(&self, name: &str) -> NodeName {
        self.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
        name.parse().unwrap()
    }

    /// A node of the embedded Kubernetes.
    pub(crate) async fn simulated_node(&self, name: &str) -> NodeName {
        let annotations = json!({(SIMULATED_ANNOTATION): "true"});
        self.create(
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}}),
        )
        .await;
        name.parse().unwrap()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a pod and sets its phase and readiness.
    pub(crate) async fn pod(&self, pod: Value, phase: &str) {
        let created = self.create(pod).await;
        let ready = if phase == "Running" { "True" } else { "False" };
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        let pods = self.pods(&created.metadata.namespace.unwrap());
        let name = created.metadata.name.unwrap();
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// A budget for the pod of this name that allows no disruption. Its status is written here instead of by a controller.
    pub(crate) async fn exhausted_budget(&self, namespace: &str, name: &str, pod: &str) {
        let budget = self.create(json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"pod": pod}}},
        }));
        budget.await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("policy", "v1", "PodDisruptionBudget"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// The state of a pod.
    pub(crate) async fn pod_state(&self, namespace: &str, name: &str) -> PodState {
        match self.pods(namespace).get_opt(name).await.unwrap() {
            None => PodState::Gone,
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => PodState::Terminating,
            Some(_) => PodState::Untouched,
        }
    }

    /// Removes terminating pods, as the kubelet does. Outages of the server are ignored.
    pub(crate) fn play_kubelet(&self, namespace: &str) -> Kubelet {
        let pods = self.pods(namespace);
        Kubelet(tokio::spawn(async move {
            loop {
                for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                    if pod.metadata.deletion_timestamp.is_some() {
                        let preconditions = Preconditions { uid: pod.metadata.uid, resource_version: None };
                        let params = DeleteParams::default().grace_period(0).preconditions(preconditions);
                        let _ = pods.delete(&pod.metadata.name.unwrap(), &params).await;
                    }
                }
                sleep(Duration::from_millis(200)).await;
            }
        }))
    }

    /// Completes task pods and writes their findings.
    pub(crate) fn play_tasks(&self, namespace: &str) -> Kubelet {
        let (real, namespace) = (self.clone(), namespace.to_owned());
        Kubelet(tokio::spawn(async move {
            let pods = real.pods(&namespace);
            loop {
                let found = pods.list(&ListParams::default().labels(TASK_LABEL)).await;
                for pod in found.map(|list| list.items).unwrap_or_default() {
                    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                    if matches!(phase, Some("Pending")) {
                        real.play_task(&namespace, &pod).await;
                    }
                }
                sleep(Duration::from_millis(100)).await;
            }
        }))
    }

    async fn play_task(&self, namespace: &str, pod: &Pod) {
        let annotation = |key: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let meta = |name: &str| json!({"namespace": namespace, "name": name});
        if let Some(name) = annotation(RESULT_ANNOTATION) {
            let data = json!({(RESULT_KEY): findings().to_string()});
            self.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(&name), "data": data})).await;
        }
        if let Some(name) = annotation(SECRET_RESULT_ANNOTATION) {
            let data = json!({(SECRET_RESULT_KEY): "abc"});
            self.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta(&name), "stringData": data}))
                .await;
        }
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        let name = pod.metadata.name.as_deref().unwrap();
        let _ = self.pods(namespace).patch_status(name, &PatchParams::default(), &ended).await;
    }

    pub(crate) async fn is_cordoned(&self, node: &NodeName) -> bool {
        self.cluster.node(node).await.unwrap().cordoned
    }
}

/// Findings of an inspection; the hash is that of `abc`.
pub(crate) fn findings() -> Value {
    json!({
        "hostName": "n", "vmId": "v", "osRelease": "Ubuntu", "kernel": "5.4", "kubeletVersion": "v1.33.0",
        "runtimeVersion": "containerd://2", "packages": {"bash": "5"}, "disk": {"sizeBytes": 10, "usedBytes": 3}, "fstab": [],
        "joinCredential": JoinCredential::StaticClientCertificate { path: "/c".to_owned() },
        "customData": {"present": true, "size": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    })
}

/// The final state of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodState {
    Gone,
    Terminating,
    Untouched,
}

/// A background task that stops when it is dropped.
pub(crate) struct Kubelet(JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}
