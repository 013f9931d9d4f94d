//! A control plane, an embedded Azure with its machines, and operators that work with both.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use control_plane::{ControlPlane, Options as PlaneOptions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::InProcess;
use kiln_azure::{Azure, AzureOptions};
use kiln_engine::operator::{ImageOptions, OperatorEvent, OperatorOptions, run};
use kiln_engine::{Context, DiscardEvents, EventSink, Stop};
use kiln_fleet_api::{Freeze, ImageVersion, NodeState, Pool, Prototype, PrototypeStatus, Rollout, RolloutStatus};
use kiln_kubernetes::{Cluster, ClusterOptions, HOLD_ANNOTATION, PodInspector, WallClock, connect};
use kiln_sim_azure::{Options, Sim, Speed, WorldSpec};
use kiln_sim_kubernetes::kubelet::Kubelets;
use kiln_types::{Factory, PoolName, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const ENDPOINT: &str = "https://sim.localhost:8443";
pub(crate) const SET: &str = "k8s-agentpool1-26100436-vmss";
/// While the machine compiles, a step that usually takes a second has taken twenty.
const LONG: Duration = Duration::from_mins(5);
/// A machine of Azure boots in a second.
const SPEED: f64 = 240.0;

fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let mut options = PlaneOptions::default();
        // The simulated kubelets work at the speed of the embedded Azure.
        options.controller_manager_arguments.push("--controllers=-node-lifecycle-controller".to_owned());
        let plane = ControlPlane::start(&options).unwrap_or_else(|error| panic!("{error}"));
        let apply = ["apply", "--server-side", "-f", "-"];
        plane
            .run_kubectl_as(plane.kubeconfig(), &apply, &kiln_fleet_api::yaml())
            .unwrap_or_else(|error| panic!("{error}"));
        let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
        plane.run_kubectl(&wait).unwrap_or_else(|error| panic!("{error}"));
        plane
    })
}

static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A cluster with three nodes of a scale set.
pub(crate) struct World {
    client: Client,
    config: Config,
    pub(crate) namespace: String,
    pub(crate) sim: Sim,
    days: Arc<AtomicI64>,
    /// Machines that are created from now on never become Ready, except canaries.
    pub(crate) is_bad: Arc<AtomicBool>,
    ids: Arc<AtomicU32>,
    kubelets: JoinHandle<()>,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.kubelets.abort();
    }
}

/// A running operator. Dropping it kills it.
pub(crate) struct Operator {
    task: JoinHandle<Result<(), kiln_engine::Error>>,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "the real API server compares with its own clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl World {
    pub(crate) async fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().await;
        let running = tokio::task::spawn_blocking(plane).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(running.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = connect(config.clone()).unwrap();
        clear(&client).await;
        let namespace = tokio::task::spawn_blocking(|| plane().namespace("images").unwrap()).await.unwrap();
        let mut spec = WorldSpec::default();
        spec.pools[0].capacity = 3;
        let sim = Sim::new(spec, Options { speed: Speed::Factor(SPEED), ..Options::instant(now()) }).unwrap();
        let (days, is_bad) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut kubelets = Kubelets::new(client.clone()).with_disks(Arc::new(sim.clone()));
        let (played, bad, clock) = (sim.clone(), is_bad.clone(), clock(&days));
        let kubelets = tokio::spawn(async move {
            let mut good = std::collections::BTreeSet::new();
            loop {
                let mut machines = played.machines();
                for machine in &mut machines {
                    let is_canary = !machine.id.contains(SET);
                    if !bad.load(Ordering::Relaxed) {
                        good.insert(machine.vm_id.clone());
                    } else if !is_canary && !good.contains(&machine.vm_id) {
                        machine.never_ready = Some("the network plugin does not start".to_owned());
                    }
                }
                kubelets.turn(&machines, clock()).await;
                sleep(Duration::from_millis(200)).await;
            }
        });
        let world = Self { client, config, namespace, sim, days, is_bad, ids: Arc::default(), kubelets, _turn: turn };
        world
            .until("all nodes are Ready", async || {
                world.nodes().await.iter().filter(|node| is_ready(node)).count() == 3
            })
            .await;
        world
    }

    pub(crate) fn clock(&self) -> Timestamp {
        clock(&self.days)()
    }

    /// The next day.
    pub(crate) fn next_day(&self) {
        self.days.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let options = ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(now) };
        Cluster::new(connect(self.config.clone()).unwrap(), options)
    }

    fn azure(&self) -> Azure {
        let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).unwrap();
        let spec = self.sim.spec();
        let identity = Identity::ServicePrincipal(ServicePrincipal {
            tenant: spec.tenant_id.clone(),
            client_id: spec.clients[0].client_id.clone(),
            secret: Secret::new(spec.clients[0].client_secret.clone()),
        });
        let sim = self.sim.clone();
        let http: Arc<dyn azure_core::http::HttpClient> =
            Arc::new(InProcess::new(move |request| Some(sim.arm(request).answer()?.map(Into::into))));
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None })
    }

    /// The context of another process, such as a command.
    pub(crate) fn process(&self, who: &str, events: Arc<dyn EventSink>) -> Context<Azure> {
        let (cluster, ids) = (self.cluster(), self.ids.clone());
        let namespace = self.namespace.parse().unwrap();
        Context {
            factory: Arc::new(self.azure()),
            inspector: Arc::new(PodInspector::new(&cluster, &namespace, "kiln:test")),
            cluster,
            namespace,
            resource_group: self.sim.spec().resource_group.clone(),
            clock: clock(&self.days),
            ids: Arc::new(move || format!("r{}", ids.fetch_add(1, Ordering::Relaxed)).parse().unwrap()),
            own_node: None,
            who: who.to_owned(),
            events,
            stop: Stop::never(),
        }
    }

    /// Starts an operator.
    pub(crate) fn operator(&self, identity: &str, with_images: bool) -> Operator {
        let log = Arc::new(Mutex::new(Vec::new()));
        let events = log.clone();
        let mut options =
            OperatorOptions::new(self.namespace.parse().unwrap(), identity.parse().unwrap(), clock(&self.days));
        options.lease = Duration::from_secs(10);
        options.report = Arc::new(move |event: &OperatorEvent| events.lock().unwrap().push(event.to_string()));
        if with_images {
            let work = Arc::new(self.process(identity, Arc::new(DiscardEvents)));
            let mut images = ImageOptions::new(work);
            (images.interval, images.idle) = (Duration::from_millis(500), Duration::from_secs(1));
            options.images = Some(images);
        }
        Operator { task: tokio::spawn(run(self.cluster(), options, Stop::never())), log }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    {
        Api::all(self.client.clone())
    }

    pub(crate) async fn create<K>(&self, object: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
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

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        self.api::<Node>().list(&ListParams::default()).await.unwrap().items
    }

    /// Names of the nodes of the scale set.
    pub(crate) async fn names(&self) -> Vec<String> {
        self.nodes()
            .await
            .into_iter()
            .filter_map(|node| node.metadata.name)
            .filter(|name| name.starts_with(SET))
            .collect()
    }

    pub(crate) async fn pool(&self, factory: Value) {
        let spec = json!({"nodeSelector": {"agentpool": "agentpool1"}, "factory": factory});
        self.create::<Pool>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    }

    pub(crate) async fn prototype(&self, pool: &str, schedule: Value) {
        let donor =
            json!({"lastPatchAnnotation": "patched", "pendingRebootAnnotation": "reboot", "minimumReadyTime": "0s"});
        let spec = json!({"pool": pool, "donor": donor, "schedule": schedule, "noOriginal": true});
        self.create::<Prototype>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    }

    /// Patches a node today.
    pub(crate) async fn patch(&self, node: &str) {
        let today = self.clock().strftime("%Y-%m-%d").to_string();
        self.change::<Node>(node, json!({"metadata": {"annotations": {"patched": today}}})).await;
    }

    pub(crate) async fn request(&self, value: &str) {
        let annotations = json!({"node.kiln.dev/run-requested-at": value});
        self.change::<Prototype>("web", json!({"metadata": {"annotations": annotations}})).await;
    }

    pub(crate) async fn status(&self) -> PrototypeStatus {
        self.api::<Prototype>().get("web").await.unwrap().status.unwrap_or_default()
    }

    pub(crate) async fn rollout_status(&self, name: &str) -> RolloutStatus {
        self.api::<Rollout>().get(name).await.unwrap().status.unwrap_or_default()
    }

    pub(crate) async fn version(&self, name: &str) -> Option<ImageVersion> {
        self.api::<ImageVersion>().get_opt(name).await.unwrap()
    }

    /// Completes a run of the Prototype `web`, and returns the number of its version.
    pub(crate) async fn complete_run(&self, request: &str) -> String {
        self.request(request).await;
        self.until("the run has ended", async || {
            let status = self.status().await;
            status.handled_request == request && status.last_run.is_some_and(|run| run.ended.is_some())
        })
        .await;
        let status = self.status().await;
        let run = status.last_run.clone().unwrap();
        run.image_version.clone().unwrap_or_else(|| panic!("{status:#?}"))
    }

    /// The versions of the pool's image definition.
    pub(crate) async fn versions(&self) -> Vec<String> {
        let context = self.process("test", Arc::new(DiscardEvents));
        let pool: PoolName = SET.parse().unwrap();
        let read = context.read(context.factory.describe_pool(&pool).await.unwrap()).await.unwrap();
        read.versions.iter().map(|version| version.number.to_string()).collect()
    }

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
                    sleep(Duration::from_millis(100)).await;
                }
            };
            if timeout(LONG, waiting).await.is_err() {
                let all = ListParams::default();
                let rollouts = self.api::<Rollout>().list(&all).await.unwrap().items;
                let prototypes = self.api::<Prototype>().list(&all).await.unwrap().items;
                let statuses: Vec<_> = rollouts.into_iter().map(|one| one.status).collect();
                let runs: Vec<_> = prototypes.into_iter().map(|one| one.status).collect();
                panic!("{place}: not in time: {what}\n{statuses:#?}\n{runs:#?}");
            }
        }
    }

    pub(crate) async fn assert_released(&self) {
        for node in self.nodes().await {
            let name = node.metadata.name.unwrap();
            assert!(node.spec.is_none_or(|spec| spec.unschedulable != Some(true)), "`{name}` is cordoned");
            assert!(!node.metadata.annotations.unwrap_or_default().contains_key(HOLD_ANNOTATION), "`{name}` is held");
        }
    }
}

fn clock(days: &Arc<AtomicI64>) -> kiln_engine::Clock {
    let days = days.clone();
    Arc::new(move || now() + SignedDuration::from_hours(24 * days.load(Ordering::Relaxed)))
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Deletes what earlier tests left.
async fn clear(client: &Client) {
    async fn delete<K>(client: &Client)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::all(client.clone());
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        loop {
            let Ok(list) = api.list(&ListParams::default()).await else { continue };
            if list.items.is_empty() {
                return;
            }
            for object in list.items {
                let name = object.meta().name.clone().unwrap();
                let _ = api.patch(&name, &PatchParams::default(), &none).await;
                let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    delete::<Rollout>(client).await;
    delete::<Prototype>(client).await;
    delete::<Freeze>(client).await;
    delete::<Pool>(client).await;
    delete::<ImageVersion>(client).await;
    delete::<Node>(client).await;
    delete::<NodeState>(client).await;
}

/// Reason and message of a condition that is true.
pub(crate) fn true_condition(conditions: &[kiln_fleet_api::Condition], type_: &str) -> Option<(String, String)> {
    let found = conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
    found.map(|one| (one.reason.clone(), one.message.clone()))
}
