//! A local pool, a simulated cluster, and simulated kubelets.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kiln_engine::{Context, EventSink, RunRequest, Stop};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, PodInspector, WallClock};
use kiln_local::{
    DiskPath, Local, LocalOptions, MachineConfig, MachineKey, MachineKind, MachineRunner, PoolSpec, QemuImg,
    RunnerError, Store, ids,
};
use kiln_sim_azure::{MachineView, Options, PowerView, Sim, WorldSpec};
use kiln_sim_kubernetes::Server;
use kiln_sim_kubernetes::kubelet::{Disks, Kubelets, create_node_agent};
use kiln_types::{Node, NodeName, PoolName, PowerDown, Secret, Tags};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const WALL: &str = "2026-11-15T12:00:00Z";
const NAMESPACE: &str = "kiln-system";
/// The file that stands for the first-boot unit.
pub(crate) const FIRST_BOOT: &str = "first-boot-unit";

/// A machine that was started at least once.
#[derive(Debug, Clone)]
struct Booted {
    on: bool,
    boots: u32,
    vm_id: String,
    upper: PathBuf,
}

/// Machines in memory, which write a file at each boot.
#[derive(Debug, Default)]
pub(crate) struct FakeRunner(Mutex<BTreeMap<MachineKey, Booted>>);

impl MachineRunner for FakeRunner {
    async fn start(&self, config: &MachineConfig) -> Result<(), RunnerError> {
        let DiskPath::Folders { upper, .. } = &config.disk else { panic!("{config:?}") };
        let mut all = self.0.lock().unwrap();
        let boots = all.get(&config.name).map_or(0, |booted| booted.boots);
        if !all.get(&config.name).is_some_and(|booted| booted.on) {
            fs::write(upper.join(format!("booted-{}", config.computer_name)), "").unwrap();
            let booted = Booted { on: true, boots: boots + 1, vm_id: config.vm_id.clone(), upper: upper.clone() };
            all.insert(config.name.clone(), booted);
        }
        Ok(())
    }

    async fn stop(&self, name: &MachineKey, _: PowerDown) -> Result<(), RunnerError> {
        if let Some(booted) = self.0.lock().unwrap().get_mut(name) {
            booted.on = false;
        }
        Ok(())
    }

    async fn switch_disk(&self, name: &MachineKey, _: &Path) -> Result<(), RunnerError> {
        panic!("{name} is not a virtual machine")
    }

    async fn is_running(&self, name: &MachineKey) -> Result<bool, RunnerError> {
        Ok(self.0.lock().unwrap().get(name).is_some_and(|booted| booted.on))
    }
}

impl Disks for FakeRunner {
    fn install_first_boot(&self, vm_id: &str, version: &str) -> Result<(), String> {
        let all = self.0.lock().unwrap();
        let machine = all.values().find(|booted| booted.on && booted.vm_id == vm_id).ok_or("it is off")?;
        fs::write(machine.upper.join(FIRST_BOOT), version).map_err(|error| error.to_string())
    }
}

/// A local pool, a simulated cluster, and simulated kubelets.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    server: Server,
    clock: kiln_engine::Clock,
    days: Arc<AtomicI64>,
    runner: Arc<FakeRunner>,
    runs: Arc<AtomicU32>,
    turns: JoinHandle<()>,
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.turns.abort();
    }
}

pub(crate) fn pool() -> PoolName {
    "workers".parse().unwrap()
}

pub(crate) fn request(number: u32) -> RunRequest {
    RunRequest {
        node: format!("workers{number:06}").parse().unwrap(),
        options: kiln_prototype::run::RunOptions::default(),
    }
}

impl Setup {
    /// Starts a pool of two machines and waits until both nodes are Ready.
    pub(crate) async fn start() -> Self {
        // In memory if possible: nothing here needs to survive a crash of the host.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let base = folder.path().join("base");
        fs::create_dir(&base).unwrap();
        let wall: Timestamp = WALL.parse().unwrap();
        let (began, days): (_, Arc<AtomicI64>) = (Instant::now(), Arc::default());
        let later = days.clone();
        let clock: kiln_engine::Clock = Arc::new(move || {
            let days = SignedDuration::from_hours(24 * later.load(Ordering::Relaxed));
            wall + SignedDuration::try_from(began.elapsed()).unwrap() + days
        });
        let server = Server::new(1, clock.clone()).with_scheduler();
        let client = Client::new(server.service(), "default");
        create_node_agent(&client).await.unwrap();
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": NAMESPACE}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();

        let runner: Arc<FakeRunner> = Arc::default();
        let store = Store::create(&folder.path().join("state")).unwrap();
        let local = Local::new(store, runner.clone(), options(&clock));
        local.import_image("debian", MachineKind::Nspawn, &base).await.unwrap();
        let spec = PoolSpec {
            name: pool(),
            image: ids::image_id("debian"),
            capacity: 2,
            size: "1x512".parse().unwrap(),
            custom_data: Some(Secret::new("#cloud-config\nhostname: x\n")),
            user_data: kiln_types::SecretBytes::default(),
            tags: Tags::new(),
        };
        local.create_pool(&spec).await.unwrap();

        let mut kubelets = Kubelets::new(client).with_disks(runner.clone());
        let (machines_on, ticking, time) = (runner.clone(), server.clone(), clock.clone());
        let like = like();
        let turns = tokio::spawn(async move {
            loop {
                let views = views(&local, &machines_on, &like).await;
                kubelets.turn(&views, time()).await;
                ticking.tick();
                sleep(Duration::from_secs(1)).await;
            }
        });
        let setup = Self { folder, server, clock, days, runner, runs: Arc::default(), turns };
        setup.until_ready().await;
        setup
    }

    /// The factory, as another process would open it.
    pub(crate) fn local(&self) -> Local<FakeRunner> {
        let store = Store::open(&self.folder.path().join("state")).unwrap();
        Local::new(store, self.runner.clone(), options(&self.clock))
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let clock = self.clock.clone();
        let options = ClusterOptions { jitter: Jitter::none(), clock: WallClock::new(move || clock()) };
        Cluster::new(Client::new(self.server.service(), "default"), options)
    }

    pub(crate) fn process(&self, events: Arc<dyn EventSink>) -> Context<Local<FakeRunner>> {
        let cluster = self.cluster();
        let namespace = NAMESPACE.parse().unwrap();
        let runs = self.runs.clone();
        Context {
            factory: Arc::new(self.local()),
            inspector: Arc::new(PodInspector::new(&cluster, &namespace, "kiln:test")),
            cluster,
            namespace,
            resource_group: ids::GROUP.to_owned(),
            clock: self.clock.clone(),
            ids: Arc::new(move || format!("r{}", runs.fetch_add(1, Ordering::Relaxed)).parse().unwrap()),
            own_node: None,
            who: "alice@test".to_owned(),
            events,
            stop: Stop::never(),
        }
    }

    /// Advances the clock by days.
    pub(crate) async fn days_later(&self, days: i64) {
        self.days.fetch_add(days, Ordering::Relaxed);
        sleep(Duration::from_secs(30)).await;
        self.until_ready().await;
    }

    /// Waits until every machine has a Ready node.
    pub(crate) async fn until_ready(&self) {
        for _ in 0..600 {
            let nodes = self.cluster().all_nodes().await.unwrap();
            if nodes.len() == self.local().machines().await.unwrap().len() && nodes.iter().all(Node::is_ready) {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("not all nodes are ready: {:#?}", self.cluster().all_nodes().await);
    }

    /// The names of the files on the disk of an instance.
    pub(crate) async fn files(&self, machine: &str) -> Vec<String> {
        let config = self.local().machine_config(&machine.parse().unwrap()).await.unwrap();
        let DiskPath::Folders { lower, upper, .. } = config.disk else { panic!("not a disk of folders") };
        let mut names: Vec<String> = lower
            .iter()
            .chain([&upper])
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    pub(crate) fn layers(&self) -> usize {
        fs::read_dir(self.folder.path().join("state/layers")).unwrap().count()
    }
}

pub(crate) fn node(number: u32) -> NodeName {
    request(number).node
}

fn options(clock: &kiln_engine::Clock) -> LocalOptions {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let new_id = || format!("00000000-0000-4000-8000-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed));
    LocalOptions { clock: clock.clone(), new_id: Arc::new(new_id), qemu_img: QemuImg::default() }
}

/// A machine of the embedded Azure, as a template.
fn like() -> MachineView {
    let sim = Sim::new(WorldSpec::default(), Options::instant(WALL.parse().unwrap())).unwrap();
    sim.machines().into_iter().next().unwrap()
}

/// The machines, as their kubelets see them.
async fn views(local: &Local<FakeRunner>, runner: &FakeRunner, like: &MachineView) -> Vec<MachineView> {
    let shown = local.machines().await.unwrap();
    let booted = runner.0.lock().unwrap().clone();
    let view = |machine: kiln_local::MachineSummary| {
        let state = booted.get(&machine.name)?;
        let mut contents = (*like.contents).clone();
        contents.identity.insert("host-name".to_owned(), machine.computer_name.clone());
        Some(MachineView {
            id: ids::provider_id(&machine.name).trim_start_matches("azure://").to_owned(),
            name: machine.name.to_string(),
            computer_name: machine.computer_name,
            vm_id: machine.vm_id,
            address: Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 0)) + u32::from(machine.number)),
            power: if state.on { PowerView::On } else { PowerView::Off },
            boots: state.boots,
            up: state.on,
            deleting: false,
            contents: Arc::new(contents),
            ..like.clone()
        })
    };
    shown.into_iter().filter_map(view).collect()
}
