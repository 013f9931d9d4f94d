//! An embedded Azure in the test process, so that a test can act between a request and its response.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use kiln_sim_azure::serve::{Listen, Sockets};
use kiln_sim_azure::tls::Tls;
use kiln_sim_azure::{Options, Sim, WorldSpec};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Finished, Kiln};
use tokio::runtime::Runtime;

/// Time limit of a command. A debug build on a busy machine needs seconds.
const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(crate) const GROUP: &str =
    "/subscriptions/c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02/resourceGroups/kubernetes-westus2-17813/providers";

/// Images whose newest version by date is not the newest by number.
pub(crate) const IMAGES: &str = "
communityImages:
- gallery: AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2
  definition: 2204gen2containerd
  versions:
  - {version: 202612.1.0, published: 2026-06-01T00:00:00Z}
  - {version: 202611.2.0, published: 2026-11-02T00:00:00Z}
  - {version: 202611.9.0, published: 2026-11-09T00:00:00Z, excludeFromLatest: true}
- gallery: AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2
  definition: 2404gen2containerd
  versions: [{version: 202611.3.0, published: 2026-11-03T00:00:00Z}]
- gallery: AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2
  definition: 2204gen2TLcontainerd
  versions: [{version: 202611.6.0, published: 2026-11-06T00:00:00Z}]
- gallery: AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2
  definition: 2404gen2arm64containerd
  versions: [{version: 202611.4.0, published: 2026-11-04T00:00:00Z}]
- gallery: AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b
  definition: V3gen2
  versions: [{version: 202611.5.0, published: 2026-11-05T00:00:00Z}]
";

const SETTINGS: &str = "
tenantId: 5a1b1c7e-2f64-4f0a-8f4e-0c7d5b1e6f01
subscriptionId: c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02
resourceGroup: kubernetes-westus2-17813
location: westus2
clusterName: my-cluster
clusterEndpoint: https://my-cluster.example:443
kubernetesVersion: 1.33.7
caBundle: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=
bootstrapToken: abcdef.0123456789abcdef
vnetSubnetId: GROUP/Microsoft.Network/virtualNetworks/k8s-vnet/subnets/k8s-subnet
sshPublicKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB me@example
";

const POOL: &str = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [Standard_D2s_v3]}
";

/// Number of requests after which the watched process is killed; 0 for never.
static KILL_AFTER: AtomicU64 = AtomicU64::new(0);
/// Requests of the watched process.
static REQUESTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// PID of the watched process: 0 for none, `STARTING` until it is known.
const STARTING: u64 = 1;
static WATCHED_PID: AtomicU64 = AtomicU64::new(0);
/// The statics above are shared by all tests of the process, so a test that watches requests runs alone.
static WATCH: RwLock<()> = RwLock::new(());

/// Guard of a test that shares the process, or of one that runs alone.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// Called after a request was processed and before its response is sent.
fn record_request(line: &str) {
    if WATCHED_PID.load(Ordering::SeqCst) == 0 {
        return;
    }
    let mut requests = REQUESTS.lock().unwrap();
    requests.push(line.to_owned());
    if requests.len() as u64 == KILL_AFTER.load(Ordering::SeqCst) {
        let pid = loop {
            match WATCHED_PID.load(Ordering::SeqCst) {
                STARTING => std::thread::yield_now(),
                pid => break pid.to_string(),
            }
        };
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    }
}

/// A served Azure, which stops when the value is dropped.
pub(crate) struct World {
    pub(crate) sim: Sim,
    _runtime: Runtime,
    pub(crate) folder: TempDir,
    variables: BTreeMap<String, String>,
    turn: Turn,
}

impl World {
    /// Starts an Azure in parallel with other tests.
    pub(crate) fn new(world: &str) -> Self {
        Self::start(world, Turn::Shared { _guard: WATCH.read().unwrap_or_else(PoisonError::into_inner) })
    }

    /// Starts an Azure whose requests are recorded. No other test runs at the same time.
    pub(crate) fn watched(world: &str) -> Self {
        Self::start(world, Turn::Alone { _guard: WATCH.write().unwrap_or_else(PoisonError::into_inner) })
    }

    fn start(world: &str, turn: Turn) -> Self {
        #[expect(clippy::disallowed_methods, reason = "certificates are judged by the clients' clock")]
        let now = jiff::Timestamp::now();
        kiln_tls::install();
        let spec = WorldSpec::parse("world", world).unwrap();
        let sim = Sim::new(spec.clone(), Options::instant(now)).unwrap();
        let folder = TempDir::new().unwrap();
        let runtime = Runtime::new().unwrap();
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sockets = runtime.block_on(Sockets::bind(Listen { arm: here, imds: here, wire: here })).unwrap();
        let tls = Tls::open(&folder.path().join("tls"), &[], now).unwrap();
        let arm = format!("https://localhost:{}", sockets.addresses.arm.port());
        let serving = sockets.serve(sim.clone(), tls.config.clone(), Some(record_request), std::future::pending());
        runtime.spawn(serving);
        let variables = [
            ("KILN_ARM_ENDPOINT", arm.clone()),
            ("KILN_CA_FILE", tls.ca_file.display().to_string()),
            ("AZURE_AUTHORITY_HOST", arm),
            ("AZURE_TENANT_ID", spec.tenant_id.clone()),
            ("AZURE_CLIENT_ID", spec.clients[0].client_id.clone()),
            ("AZURE_CLIENT_SECRET", spec.clients[0].client_secret.clone()),
            ("AZURE_SUBSCRIPTION_ID", spec.subscription_id.clone()),
            ("AZURE_RESOURCE_GROUP", spec.resource_group.clone()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        let world = Self { sim, _runtime: runtime, folder, variables, turn };
        world.write("settings.yaml", &SETTINGS.replace("GROUP", GROUP));
        world.write("pool.yaml", POOL);
        world
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Arguments for settings and pool, followed by `more`.
    pub(crate) fn inputs<'a>(&self, more: &[&'a str]) -> Vec<String> {
        let own =
            ["--settings", &self.path("settings.yaml"), "--node-pool", &self.path("pool.yaml")].map(str::to_owned);
        own.into_iter().chain(more.iter().map(|text: &&'a str| (*text).to_owned())).collect()
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut all = vec!["launch"];
        all.extend(arguments.iter().map(String::as_str));
        let mut command = Kiln::at(env!("CARGO_BIN_EXE_kiln")).command(&all);
        command.env_remove("KUBECONFIG").envs(&self.variables);
        command
    }

    /// Runs a command and checks that standard error contains no secret.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], inputs: &[String]) -> Finished {
        let all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).chain(inputs.iter().cloned()).collect();
        let finished = testkit::run(self.command(&all), DEADLINE);
        for secret in [self.variables["AZURE_CLIENT_SECRET"].as_str(), TOKEN] {
            assert!(!finished.stderr.contains(secret), "standard error contains a secret: {finished}");
        }
        finished
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &[&str], inputs: &[String]) {
        drop(self.run(arguments, inputs).success());
    }

    /// Runs a command and kills it after a number of requests, before it receives the last response. Returns its requests, and whether it
    /// ended by itself.
    pub(crate) fn run_killed(&self, requests: u64, arguments: &[&str], inputs: &[String]) -> (Vec<String>, bool) {
        assert!(matches!(self.turn, Turn::Alone { .. }), "requests are recorded only in a watched world");
        let all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).chain(inputs.iter().cloned()).collect();
        REQUESTS.lock().unwrap().clear();
        KILL_AFTER.store(requests, Ordering::SeqCst);
        WATCHED_PID.store(STARTING, Ordering::SeqCst);
        let mut command = self.command(&all);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        WATCHED_PID.store(child.id().into(), Ordering::SeqCst);
        let status = child.wait().unwrap();
        WATCHED_PID.store(0, Ordering::SeqCst);
        (std::mem::take(&mut *REQUESTS.lock().unwrap()), status.success())
    }

    /// Returns the paths of all resources, relative to the resource group.
    pub(crate) fn resources(&self) -> BTreeSet<String> {
        self.sim
            .stored()
            .into_keys()
            .map(|id| id.trim_start_matches(GROUP).trim_start_matches('/').to_owned())
            .collect()
    }

    /// Returns the body of a resource.
    #[track_caller]
    pub(crate) fn body(&self, path: &str) -> Value {
        let all = self.sim.stored();
        all.get(&format!("{GROUP}/{path}")).unwrap_or_else(|| panic!("no {path} in {:?}", all.keys())).clone()
    }
}
