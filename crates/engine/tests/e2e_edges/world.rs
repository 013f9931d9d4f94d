//! The embedded Azure and Kubernetes with their kubelets, on one virtual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::{InProcess, Recorder};
use kiln_azure::{Azure, AzureOptions};
use kiln_engine::{Context, DiscardEvents, EventSink, RunEnd, RunEvent, RunEventKind, RunRequest, Stop, update};
use kiln_kubernetes::{Cluster, ClusterOptions, PodInspector, WallClock};
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunOptions;
use kiln_sim_azure::{FaultPlan, MachineView, Options, PoolSpec, Sim, Speed, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_sim_kubernetes::kubelet::{Kubelets, create_node_agent};
use kiln_types::{ImageSource, Node, NodeName, Pool, PoolName, Secret};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::wire::Wire;

const ENDPOINT: &str = "https://sim.localhost:8443";
pub(crate) const WALL: &str = "2026-11-15T12:00:00Z";
const NAMESPACE: &str = "kiln-system";
pub(crate) const POOL: &str = "k8s-agentpool1-26100436-vmss";

/// Creates a [`World`].
#[derive(Clone)]
pub(crate) struct WorldBuilder {
    pub(crate) spec: WorldSpec,
    pub(crate) speed: Speed,
    pub(crate) faults: String,
    pub(crate) seed: u64,
}

impl WorldBuilder {
    /// Three nodes, at Azure's own speed.
    pub(crate) fn new() -> Self {
        let mut spec = WorldSpec::default();
        spec.pools[0].capacity = 3;
        Self { spec, speed: Speed::Factor(1.0), faults: String::new(), seed: 1 }
    }

    /// 50 nodes, so that instance numbers have letters and a second digit in base 36.
    pub(crate) fn large() -> Self {
        Self::new().pool(|pool| pool.capacity = 50)
    }

    /// Three nodes, with Azure sixty times as fast.
    pub(crate) fn quick() -> Self {
        Self { speed: Speed::Factor(60.0), ..Self::new() }
    }

    pub(crate) fn pool(mut self, change: impl FnOnce(&mut PoolSpec)) -> Self {
        change(&mut self.spec.pools[0]);
        self
    }

    pub(crate) fn faults(self, rules: &str) -> Self {
        Self { faults: format!("faults: [{rules}]"), ..self }
    }

    /// Starts the world and waits until all nodes are Ready.
    pub(crate) async fn start(self) -> World {
        let wall: Timestamp = WALL.parse().unwrap();
        let faults = FaultPlan::parse("faults", &self.faults).unwrap();
        let options = Options { speed: self.speed, faults, seed: self.seed, ..Options::instant(wall) };
        let sim = Sim::new(self.spec, options).unwrap();
        let began = Instant::now();
        let shift: Arc<AtomicI64> = Arc::default();
        let shifted = shift.clone();
        let clock: kiln_engine::Clock = Arc::new(move || {
            let days = SignedDuration::from_hours(24 * shifted.load(Ordering::Relaxed));
            wall + SignedDuration::try_from(began.elapsed()).unwrap() + days
        });
        let server = Server::new(self.seed, clock.clone()).with_scheduler();
        let client = Client::new(server.service(), "default");
        create_node_agent(&client).await.unwrap();
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": NAMESPACE}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let mut kubelets = Kubelets::new(client).with_disks(Arc::new(sim.clone()));
        let (played, ticking, time) = (sim.clone(), server.clone(), clock.clone());
        let tick = Arc::new(AtomicU64::new(1000));
        let interval = tick.clone();
        let turns = tokio::spawn(async move {
            loop {
                kubelets.turn(&played.machines(), time()).await;
                ticking.tick();
                sleep(Duration::from_millis(interval.load(Ordering::Relaxed))).await;
            }
        });
        let world = World { sim, server, clock, wire: Wire::new(), turns, ids: Arc::default(), shift, tick };
        world.until_ready().await;
        world
    }
}

/// A simulated Azure and cluster.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) server: Server,
    pub(crate) clock: kiln_engine::Clock,
    pub(crate) wire: Arc<Wire>,
    turns: JoinHandle<()>,
    ids: Arc<AtomicU32>,
    shift: Arc<AtomicI64>,
    /// The interval of the kubelets, in milliseconds.
    tick: Arc<AtomicU64>,
}

/// The cost of a run.
pub(crate) struct Cost {
    /// The requests to ARM.
    pub(crate) requests: Vec<String>,
    /// Virtual time.
    pub(crate) time: Duration,
    pub(crate) journal_writes: usize,
}

/// Counts the writes of the journal: one per event.
#[derive(Default)]
struct JournalWrites(AtomicUsize);

impl EventSink for JournalWrites {
    fn record(&self, event: RunEvent) -> BoxFuture<'_, ()> {
        self.0.fetch_add(usize::from(matches!(event.kind, RunEventKind::Recorded(_))), Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// A planned fault that never happened means that the test shows less than it claims.
impl Drop for World {
    fn drop(&mut self) {
        self.turns.abort();
        let unfired = self.sim.unfired_faults();
        assert!(unfired.is_empty() || std::thread::panicking(), "planned faults never fired: {unfired:?}");
    }
}

impl World {
    /// Advances the clock by days and waits until all nodes are Ready. Sleeping would run the kubelets once for every second.
    pub(crate) async fn days_later(&self, days: i64) {
        self.shift.fetch_add(days, Ordering::Relaxed);
        self.sim.pass(SignedDuration::from_hours(24 * days)).unwrap();
        sleep(Duration::from_secs(30)).await;
        self.until_ready().await;
    }

    /// Completes a run on kubelets that react within 10 ms, and returns its cost.
    pub(crate) async fn measure(&self, request: &RunRequest) -> Cost {
        self.tick.store(10, Ordering::Relaxed);
        // The kubelets notice this at their next turn.
        sleep(Duration::from_secs(1)).await;
        let (before, began) = (self.wire.requests().len(), Instant::now());
        let writes = Arc::new(JournalWrites::default());
        let report = Box::pin(update(&self.process(writes.clone()), request)).await.unwrap();
        let time = began.elapsed();
        self.tick.store(1000, Ordering::Relaxed);
        assert!(matches!(report.end, RunEnd::Closed(Outcome::Completed { .. })), "{}", report.end);
        let sent = self.wire.requests().split_off(before);
        let requests = sent.iter().map(|(method, path, status)| format!("{method} {path} {status}")).collect();
        Cost { requests, time, journal_writes: writes.0.load(Ordering::Relaxed) }
    }

    /// The cluster, with a new client.
    pub(crate) fn cluster(&self) -> Cluster {
        let clock = self.clock.clone();
        let options = ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(move || clock()) };
        Cluster::new(Client::new(self.server.service(), "default"), options)
    }

    /// Azure, with a new client.
    pub(crate) fn azure(&self) -> Azure {
        let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).unwrap();
        let spec = self.sim.spec();
        let identity = Identity::ServicePrincipal(ServicePrincipal {
            tenant: spec.tenant_id.clone(),
            client_id: spec.clients[0].client_id.clone(),
            secret: Secret::new(spec.clients[0].client_secret.clone()),
        });
        let sim = self.sim.clone();
        let http: Arc<dyn azure_core::http::HttpClient> = Arc::new(InProcess::new(move |request| {
            Some(sim.arm(request).answer()?.map(|body| upper_case_host_names(&body).into()))
        }));
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        let recorder: Arc<dyn Recorder> = self.wire.clone();
        Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: Some(recorder) })
    }

    /// The context of another process.
    pub(crate) fn process(&self, events: Arc<dyn EventSink>) -> Context<Azure> {
        let cluster = self.cluster();
        let namespace = NAMESPACE.parse().unwrap();
        let ids = self.ids.clone();
        Context {
            factory: Arc::new(self.azure()),
            inspector: Arc::new(PodInspector::new(&cluster, &namespace, "kiln:test")),
            cluster,
            namespace,
            resource_group: self.sim.spec().resource_group.clone(),
            clock: self.clock.clone(),
            ids: Arc::new(move || format!("r{}", ids.fetch_add(1, Ordering::Relaxed)).parse().unwrap()),
            own_node: None,
            who: "alice@test".to_owned(),
            events,
            stop: Stop::never(),
        }
    }

    /// The context of another process that records no events.
    pub(crate) fn quiet(&self) -> Context<Azure> {
        self.process(Arc::new(DiscardEvents))
    }

    pub(crate) fn machines(&self) -> Vec<MachineView> {
        self.sim.machines()
    }

    /// Waits until every instance has a Ready node.
    pub(crate) async fn until_ready(&self) {
        for _ in 0..3600 {
            let nodes = self.cluster().all_nodes().await.unwrap();
            if nodes.len() == self.machines().len() && nodes.iter().all(Node::is_ready) {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("not all nodes are ready: {:#?}", self.cluster().all_nodes().await);
    }

    pub(crate) async fn annotate(&self, node: &NodeName, key: &str, value: &str) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(Client::new(self.server.service(), "default"));
        let patch = serde_json::json!({"metadata": {"annotations": {key: value}}});
        let patch = kube::api::Patch::Merge(patch);
        nodes.patch(node.as_str(), &kube::api::PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn pool(&self) -> Pool {
        use kiln_types::Factory;
        self.azure().describe_pool(&pool_name()).await.unwrap()
    }
}

pub(crate) fn pool_name() -> PoolName {
    POOL.parse().unwrap()
}

pub(crate) fn node(number: u32) -> NodeName {
    format!("{POOL}{number:06}").parse().unwrap()
}

/// The options of a run whose user knows the protected settings of the pool's script.
pub(crate) fn options() -> RunOptions {
    RunOptions { protected_settings_of: ["vmssCSE".to_owned()].into(), ..RunOptions::default() }
}

pub(crate) fn request(number: u32) -> RunRequest {
    RunRequest { node: node(number), options: options() }
}

/// The version that an instance runs.
pub(crate) fn version_of(image: &ImageSource) -> Option<String> {
    match image {
        ImageSource::ExactVersion(_, number) => Some(number.to_string()),
        _ => None,
    }
}

/// Writes host names in upper case. Azure does that for the number of an instance, whose Node is still called in lower case.
fn upper_case_host_names(body: &[u8]) -> Vec<u8> {
    const FIELD: &str = "\"computerName\":\"";
    let text = String::from_utf8_lossy(body);
    let mut parts = text.split(FIELD);
    let mut upper = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_at(part.find('"').unwrap_or_default());
        upper.extend([FIELD, &name.to_ascii_uppercase(), rest]);
    }
    upper.into_bytes()
}
