//! A simulated Azure, cluster and kubelets in this process, on a simulated clock. It opens no sockets and writes no files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::InProcess;
use kiln_azure::{Azure, AzureOptions};
use kiln_engine::{Context, EventSink, Stop};
use kiln_kubernetes::{Cluster, ClusterOptions, NodeName, PodInspector, WallClock};
use kiln_sim_azure::{MachineView, Options, Sim, Speed, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_sim_kubernetes::kubelet::{Kubelets, create_node_agent};
use kiln_types::{Node, PoolName, Secret, node_name_of};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};

use crate::failure::Failure;

const ENDPOINT: &str = "https://azure.localhost";
pub(super) const NAMESPACE: &str = "kiln-system";

/// Interval of the simulated kubelets.
const TURN: Duration = Duration::from_secs(1);

/// Interval while an image is created and nothing happens on any node. Short enough to renew the node leases.
const QUIET_TURN: Duration = Duration::from_secs(20);

/// Turns to wait for nodes to become Ready.
const MAX_TURNS: u32 = 3_600;

/// The simulated systems of the demo.
pub(super) struct World {
    pub(super) sim: Sim,
    pub(super) cluster: Cluster,
    pub(super) client: Client,
    pub(super) pool: PoolName,
    azure: Arc<Azure>,
    pub(super) clock: kiln_engine::Clock,
    runs: Arc<AtomicU32>,
    /// Set while nothing happens on any node.
    pub(super) quiet: Arc<AtomicBool>,
}

impl World {
    /// Starts a pool of ten Ready nodes whose recipe is outdated.
    pub(super) async fn start(now: Timestamp) -> Result<Self, Failure> {
        Self::start_with(WorldSpec::default(), now).await
    }

    /// Starts the machines of this specification, and waits until those of its first pool are Ready nodes.
    pub(super) async fn start_with(spec: WorldSpec, now: Timestamp) -> Result<Self, Failure> {
        let pool: PoolName = spec.pools[0].name.parse().map_err(Failure::failed)?;
        let options = Options { speed: Speed::Factor(1.0), ..Options::instant(now) };
        let sim = Sim::new(spec, options).map_err(Failure::failed)?;
        let began = Instant::now();
        let clock: kiln_engine::Clock =
            Arc::new(move || now + SignedDuration::try_from(began.elapsed()).unwrap_or(SignedDuration::MAX));
        let server = Server::new(1, clock.clone()).with_scheduler();
        let client = Client::new(server.service(), "default");
        create_node_agent(&client).await.map_err(Failure::failed)?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.map_err(Failure::failed)?;
        let time = clock.clone();
        let options = ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(move || time()) };
        let world = Self {
            azure: Arc::new(azure(&sim)?),
            cluster: Cluster::new(client.clone(), options),
            client: client.clone(),
            pool,
            clock: clock.clone(),
            runs: Arc::default(),
            quiet: Arc::default(),
            sim: sim.clone(),
        };
        let quiet = world.quiet.clone();
        let mut kubelets = Kubelets::new(client).with_disks(Arc::new(sim.clone()));
        tokio::spawn(async move {
            loop {
                kubelets.turn(&sim.machines(), clock()).await;
                server.tick();
                sleep(if quiet.load(Ordering::Relaxed) { QUIET_TURN } else { TURN }).await;
            }
        });
        world.until_ready().await?;
        Ok(world)
    }

    /// The context in which an operation runs.
    pub(super) fn context(&self, events: Arc<dyn EventSink>) -> Result<Context<Azure>, Failure> {
        let namespace = NAMESPACE.parse().map_err(Failure::failed)?;
        let runs = self.runs.clone();
        Ok(Context {
            factory: self.azure.clone(),
            inspector: Arc::new(PodInspector::new(&self.cluster, &namespace, "kiln")),
            cluster: self.cluster.clone(),
            namespace,
            resource_group: self.sim.spec().resource_group.clone(),
            clock: self.clock.clone(),
            ids: Arc::new(move || {
                let number = runs.fetch_add(1, Ordering::Relaxed);
                format!("demo{number}").parse().expect("a valid run id")
            }),
            own_node: None,
            who: "demo".to_owned(),
            events,
            stop: Stop::never(),
        })
    }

    /// The simulated time.
    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The node name of an instance.
    pub(super) fn node(&self, number: u32) -> Result<NodeName, Failure> {
        let id = number.to_string().parse().map_err(Failure::failed)?;
        let name = node_name_of(&self.pool, &id).map_err(Failure::failed)?;
        name.parse().map_err(Failure::failed)
    }

    /// The machines of the pool, oldest first.
    pub(super) fn machines(&self) -> Vec<MachineView> {
        let of_pool = format!("/{}/", self.pool).to_ascii_lowercase();
        let mut all = self.sim.machines();
        all.retain(|machine| machine.id.to_ascii_lowercase().contains(&of_pool));
        all.sort_by(|a, b| a.computer_name.cmp(&b.computer_name));
        all
    }

    /// Waits until every machine of the pool is a Ready node.
    pub(super) async fn until_ready(&self) -> Result<(), Failure> {
        let mut nodes = Vec::new();
        for _ in 0..MAX_TURNS {
            nodes = self.cluster.nodes_of(&self.pool).await.map_err(Failure::failed)?;
            if nodes.len() == self.machines().len() && nodes.iter().all(Node::is_ready) {
                return Ok(());
            }
            sleep(TURN).await;
        }
        let ready = nodes.iter().filter(|node| node.is_ready()).count();
        let (nodes, machines) = (nodes.len(), self.machines().len());
        Err(Failure::failed(format_args!(
            "not all nodes of the pool became Ready: {machines} machines, {nodes} nodes, {ready} of them Ready"
        )))
    }
}

fn azure(sim: &Sim) -> Result<Azure, Failure> {
    let spec = sim.spec();
    let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).map_err(Failure::failed)?;
    let first = spec.clients.first().ok_or_else(|| Failure::failed("the simulated Azure has no client"))?;
    let identity = Identity::ServicePrincipal(ServicePrincipal {
        tenant: spec.tenant_id.clone(),
        client_id: first.client_id.clone(),
        secret: Secret::new(first.client_secret.as_str()),
    });
    let answering = sim.clone();
    let http = Arc::new(InProcess::new(move |request| answering.arm(request).answer()));
    let credential =
        Login { cloud: cloud.clone(), identity }.credential(&(http.clone() as _)).map_err(Failure::failed)?;
    let scope = Scope::new(&spec.subscription_id, &spec.resource_group).map_err(Failure::failed)?;
    Ok(Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None }))
}
