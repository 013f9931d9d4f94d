//! An Azure served by this process, so that a test can act between a request and its answer.

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

/// A debug build on a busy machine needs seconds; more than this is a hang.
const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
pub(crate) const GROUP: &str =
    "/subscriptions/c3b5a9e2-7d18-4b6f-a1c4-9e8d7f6a5b02/resourceGroups/kubernetes-westus2-17813/providers";

/// Newest by its date and not by its number.
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

/// How many requests are let through before the process that is watched is killed; 0 for all of them.
static FUSE: AtomicU64 = AtomicU64::new(0);
/// The requests of the watched process.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The process that is killed, once it is known.
const STARTING: u64 = 1;
static VICTIM: AtomicU64 = AtomicU64::new(0);
/// The three above are this process's: while a test watches, it is alone.
static WATCH: RwLock<()> = RwLock::new(());

/// Keeps others away from what a test watches, or a watcher away from a test.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

/// Called when a request was carried out and its answer is still here.
fn notice(line: &str) {
    if VICTIM.load(Ordering::SeqCst) == 0 {
        return;
    }
    let mut seen = SEEN.lock().unwrap();
    seen.push(line.to_owned());
    if seen.len() as u64 == FUSE.load(Ordering::SeqCst) {
        let victim = loop {
            match VICTIM.load(Ordering::SeqCst) {
                STARTING => std::thread::yield_now(),
                victim => break victim.to_string(),
            }
        };
        assert!(Command::new("kill").args(["-9", &victim]).status().unwrap().success());
    }
}

/// A served world. It ends with this value.
pub(crate) struct World {
    pub(crate) sim: Sim,
    _runtime: Runtime,
    pub(crate) folder: TempDir,
    variables: BTreeMap<String, String>,
    turn: Turn,
}

impl World {
    /// A world beside those of other tests.
    pub(crate) fn new(world: &str) -> Self {
        Self::start(world, Turn::Shared { _guard: WATCH.read().unwrap_or_else(PoisonError::into_inner) })
    }

    /// A world whose requests are counted: the only one while it is.
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
        let serving = sockets.serve(sim.clone(), tls.config.clone(), Some(notice), std::future::pending());
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

    /// Settings and pool, and more.
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

    /// Runs a command to its end. No secret is on standard error, ever.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], inputs: &[String]) -> Finished {
        let all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).chain(inputs.iter().cloned()).collect();
        let finished = testkit::run(self.command(&all), DEADLINE);
        for secret in [self.variables["AZURE_CLIENT_SECRET"].as_str(), TOKEN] {
            assert!(!finished.stderr.contains(secret), "a secret is shown: {finished}");
        }
        finished
    }

    /// Runs a command that is to succeed.
    #[track_caller]
    pub(crate) fn does(&self, arguments: &[&str], inputs: &[String]) {
        drop(self.run(arguments, inputs).success());
    }

    /// Runs a command and kills it after so many requests, before it sees the answer to the last. Says which requests it made, and whether
    /// it ended by itself.
    pub(crate) fn run_killed(&self, requests: u64, arguments: &[&str], inputs: &[String]) -> (Vec<String>, bool) {
        assert!(matches!(self.turn, Turn::Alone { .. }), "only a watched world's requests are counted");
        let all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).chain(inputs.iter().cloned()).collect();
        SEEN.lock().unwrap().clear();
        FUSE.store(requests, Ordering::SeqCst);
        VICTIM.store(STARTING, Ordering::SeqCst);
        let mut command = self.command(&all);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        VICTIM.store(child.id().into(), Ordering::SeqCst);
        let status = child.wait().unwrap();
        VICTIM.store(0, Ordering::SeqCst);
        (std::mem::take(&mut *SEEN.lock().unwrap()), status.success())
    }

    /// Paths below the group of everything that is there.
    pub(crate) fn there(&self) -> BTreeSet<String> {
        self.sim
            .stored()
            .into_keys()
            .map(|id| id.trim_start_matches(GROUP).trim_start_matches('/').to_owned())
            .collect()
    }

    /// The body that was written to a resource.
    #[track_caller]
    pub(crate) fn body(&self, path: &str) -> Value {
        let all = self.sim.stored();
        all.get(&format!("{GROUP}/{path}")).unwrap_or_else(|| panic!("no {path} in {:?}", all.keys())).clone()
    }
}
