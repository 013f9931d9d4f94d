//! A control plane for the operator, with nodes and objects of the fleet.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use control_plane::{ControlPlane, Options, unique};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kiln_engine::operator::{OperatorEvent, OperatorOptions, run};
use kiln_engine::{Stop, Stopper};
use kiln_fleet_api::{Freeze, NodeConfig, NodeState, Pool, Rollout, RolloutPhase, RolloutPolicy, RolloutStatus};
use kiln_kubernetes::{Cluster, ClusterOptions, HOLD_ANNOTATION, Jitter, WallClock, connect};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::crash::CrashLayer;
use crate::kilnd::Kilnd;

/// While the machine compiles, a step that usually takes a second has taken twenty.
pub(crate) const LONG: Duration = Duration::from_mins(4);

/// The control plane of this test binary. The operator acts on the whole cluster, so one test at a time uses it.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let mut options = Options::default();
        // The nodes have no kubelet that renews their lease.
        options.controller_manager_arguments.push("--controllers=-node-lifecycle-controller".to_owned());
        let plane = ControlPlane::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let definitions = kiln_fleet_api::yaml();
        let apply = ["apply", "--server-side", "-f", "-"];
        plane.run_kubectl_as(plane.kubeconfig(), &apply, &definitions).unwrap_or_else(|error| panic!("{error}"));
        let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
        plane.run_kubectl(&wait).unwrap_or_else(|error| panic!("{error}"));
        plane
    })
}

static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// An empty cluster for one test.
pub(crate) struct World {
    pub(crate) client: Client,
    config: Config,
    pub(crate) namespace: String,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

/// A running operator. Dropping it kills it.
pub(crate) struct Operator {
    stopper: Stopper,
    task: JoinHandle<Result<(), kiln_engine::Error>>,
    pub(crate) log: Arc<Mutex<Vec<OperatorEvent>>>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Operator {
    /// Stops it as a signal does.
    pub(crate) async fn stop(mut self) {
        self.stopper.stop();
        timeout(LONG, &mut self.task).await.expect("the operator stops").expect("no panic").expect("no error");
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(ToString::to_string).collect()
    }

    /// The address of its HTTP server.
    pub(crate) async fn address(&self) -> std::net::SocketAddr {
        let find = || {
            let log = self.log.lock().unwrap();
            log.iter().find_map(|event| match event {
                OperatorEvent::Listening(address) => Some(*address),
                _ => None,
            })
        };
        loop {
            if let Some(address) = find() {
                return address;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let running = tokio::task::spawn_blocking(plane).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(running.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = connect(config.clone()).unwrap();
        let mut world = Self { client, config, namespace: String::new(), _turn: turn };
        world.clear().await;
        world.namespace = tokio::task::spawn_blocking(|| plane().namespace("operator").unwrap()).await.unwrap();
        world
    }

    /// Deletes what earlier tests left.
    pub(crate) async fn clear(&self) {
        for rollout in self.list::<Rollout>().await {
            let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let _ = self
                .api::<Rollout>()
                .patch(rollout.metadata.name.as_deref().unwrap(), &PatchParams::default(), &none)
                .await;
        }
        let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        for namespace in ["default", self.namespace.as_str()].into_iter().filter(|namespace| !namespace.is_empty()) {
            let client = || self.client.clone();
            let _ = Api::<ReplicaSet>::namespaced(client(), namespace).delete_collection(&now, &all).await;
            let _ = Api::<PodDisruptionBudget>::namespaced(client(), namespace).delete_collection(&now, &all).await;
            let _ = Api::<Pod>::namespaced(client(), namespace).delete_collection(&now, &all).await;
        }
        let sets: Api<DaemonSet> = Api::all(self.client.clone());
        for set in sets.list(&all).await.unwrap().items {
            let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), &set.metadata.namespace.unwrap());
            api.delete(&set.metadata.name.unwrap(), &now).await.unwrap();
        }
        let _ = self.api::<Rollout>().delete_collection(&now, &all).await;
        let _ = self.api::<Pool>().delete_collection(&now, &all).await;
        let _ = self.api::<NodeConfig>().delete_collection(&now, &all).await;
        let _ = self.api::<RolloutPolicy>().delete_collection(&now, &all).await;
        let _ = self.api::<Freeze>().delete_collection(&now, &all).await;
        let _ = self.api::<Node>().delete_collection(&now, &all).await;
        let _ = self.api::<NodeState>().delete_collection(&now, &all).await;
        self.until("the cluster is empty", async || {
            self.list::<Rollout>().await.is_empty()
                && self.list::<NodeState>().await.is_empty()
                && self.list::<Node>().await.is_empty()
                && self.list::<Pool>().await.is_empty()
                && self.list::<NodeConfig>().await.is_empty()
        })
        .await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        loop {
            match self.api::<K>().list(&ListParams::default()).await {
                Ok(list) => return list.items,
                // The storage of a definition that was created just now.
                Err(kube::Error::Api(status)) if status.code == 429 => sleep(Duration::from_millis(200)).await,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn get<K>(&self, name: &str) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.api::<K>().get(name).await.unwrap()
    }

    pub(crate) async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn change<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits for a condition.
    #[track_caller]
    pub(crate) fn until<'a, F: Future<Output = bool>>(
        &'a self,
        what: &'a str,
        condition: impl Fn() -> F + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let waiting = async {
                while !condition().await {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            if timeout(LONG, waiting).await.is_err() {
                let rollouts: Vec<_> = self.list::<Rollout>().await.into_iter().map(|rollout| rollout.status).collect();
                panic!("{place}: not in time: {what}\n{rollouts:#?}");
            }
        }
    }

    /// Creates Ready nodes of the pool `web`, alternating between two zones. The first one is the canary.
    pub(crate) async fn nodes(&self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for number in 0..count {
            let name = unique(&format!("n{number:02}"));
            self.node(&name, number % 2, number == 0).await;
            names.push(name);
        }
        names
    }

    pub(crate) async fn node(&self, name: &str, zone: usize, canary: bool) {
        let labels = json!({
            "pool": "web", "topology.kubernetes.io/zone": format!("zone-{zone}"), "canary": canary.to_string(),
        });
        self.create::<Node>(json!({"metadata": {"name": name, "labels": labels}})).await;
        self.set_ready(name, true).await;
    }

    pub(crate) async fn set_ready(&self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({
            "type": "Ready", "status": status, "lastTransitionTime": now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.api::<Node>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn pool(&self) {
        self.create::<Pool>(json!({"metadata": {"name": "web"}, "spec": {"nodeSelector": {"pool": "web"}}})).await;
    }

    /// Creates a NodeConfig, and returns its digest. The text is part of the document.
    pub(crate) async fn document(&self, name: &str, kubelet: Value) -> String {
        let document = document(name, kubelet);
        let digest = kiln_node_config::NodeConfig::parse(document.as_bytes()).unwrap().hash();
        self.create::<NodeConfig>(json!({"metadata": {"name": name}, "spec": {"document": document}})).await;
        digest
    }

    pub(crate) async fn rollout(&self, name: &str, config: &str, policy: Value) {
        self.rollout_with(name, json!({"target": {"nodeConfig": config}, "policy": policy})).await;
    }

    pub(crate) async fn rollout_with(&self, name: &str, mut spec: Value) {
        if spec.get("pools").is_none() {
            spec["pools"] = json!(["web"]);
        }
        self.create::<Rollout>(json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    pub(crate) async fn status(&self, rollout: &str) -> RolloutStatus {
        self.get::<Rollout>(rollout).await.status.unwrap_or_default()
    }

    pub(crate) async fn until_phase(&self, rollout: &str, phase: RolloutPhase) -> RolloutStatus {
        let what = format!("Rollout `{rollout}` is {}", phase.as_str());
        self.until(&what, async || self.status(rollout).await.phase == phase).await;
        self.status(rollout).await
    }

    /// Starts an operator with this identity.
    pub(crate) fn operator(&self, identity: &str) -> Operator {
        self.operator_with(identity, connect(self.config.clone()).unwrap(), Duration::from_secs(10))
    }

    /// Starts an operator whose requests pass through the layer.
    pub(crate) fn crashing_operator(&self, identity: &str, layer: &CrashLayer) -> Operator {
        let mut config = self.config.clone();
        config.default_retry = false;
        let client = ClientBuilder::try_from(config).unwrap().with_layer(layer).build();
        self.operator_with(identity, client, Duration::from_secs(10))
    }

    pub(crate) fn operator_with(&self, identity: &str, client: Client, lease: Duration) -> Operator {
        let log = Arc::new(Mutex::new(Vec::new()));
        let events = log.clone();
        let mut options =
            OperatorOptions::new(self.namespace.parse().unwrap(), identity.parse().unwrap(), Arc::new(now));
        options.lease = lease;
        options.listen = Some("127.0.0.1:0".parse().unwrap());
        options.report = Arc::new(move |event| events.lock().unwrap().push(event.clone()));
        let cluster = Cluster::new(client, ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(now) });
        let (stopper, stop) = Stop::pair();
        Operator { stopper, task: tokio::spawn(run(cluster, options, stop)), log }
    }

    pub(crate) fn kilnd(&self) -> Kilnd {
        Kilnd::start(self.client.clone())
    }

    /// Asserts that no node is cordoned, held or allowed to change.
    #[track_caller]
    pub(crate) fn assert_released(&self) -> impl Future<Output = ()> + '_ {
        let place = std::panic::Location::caller();
        async move {
            for node in self.list::<Node>().await {
                let name = node.metadata.name.unwrap();
                assert!(node.spec.is_none_or(|spec| spec.unschedulable != Some(true)), "{place}: `{name}` is cordoned");
                let annotations = node.metadata.annotations.unwrap_or_default();
                assert!(!annotations.contains_key(HOLD_ANNOTATION), "{place}: `{name}` is held: {annotations:?}");
            }
            for state in self.list::<NodeState>().await {
                let (allow, reboot) = (&state.spec.allow, &state.spec.reboot);
                assert_eq!((allow, reboot), (&None, &None), "{place}: {:?}", state.metadata.name);
            }
        }
    }

    /// The notes of events with this reason on an object.
    pub(crate) async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let is_about = |event: &Event| {
            event.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some(name))
                && event.reason.as_deref() == Some(reason)
        };
        all.into_iter().filter(is_about).filter_map(|event| event.note).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the real API server compares with its own clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A valid document with these settings of the kubelet.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
pub(crate) fn document(name: &str, kubelet: Value) -> String {
    let mut document = json!({
        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": name, "generation": 1},
        "spec": {
            "cluster": {
                "endpoint": "https://cluster.example",
                "certificateAuthority": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
            },
            "kubelet": {"version": "1.33.7"},
        },
    });
    for (field, value) in kubelet.as_object().unwrap() {
        document["spec"]["kubelet"][field] = value.clone();
    }
    document.to_string()
}

/// A document that a node applies while its pods run.
pub(crate) fn restarting(size: &str) -> Value {
    json!({"configuration": {"containerLogMaxSize": size}})
}

/// A kubeconfig of a user without permissions.
pub(crate) fn stranger() -> Kubeconfig {
    let path = plane().kubeconfig_for(&control_plane::Identity::user("stranger")).unwrap();
    Kubeconfig::read_from(path).unwrap()
}
