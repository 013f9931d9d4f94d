//! An embedded Azure in the private network, and a client that changes an instance's user data through ARM.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use azure_core::http::HttpClient;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::InProcess;
use kiln_azure::{Azure, AzureOptions};
use kiln_sim_azure::serve::{Listen, Sockets};
use kiln_sim_azure::tls::Tls;
use kiln_sim_azure::{Options, Sim, WorldSpec};
use kiln_types::{Factory as _, Instance, PoolName, Secret, SecretBytes};
use tokio::runtime::Runtime;

/// A name that is never resolved: the client calls the embedded Azure in its own process.
const ENDPOINT: &str = "https://sim.localhost:8443";

/// One per test, and some spare.
const INSTANCES: u32 = 16;

/// An embedded Azure that all tests of this process share; each test uses a separate instance.
pub(crate) struct Embedded {
    runtime: Runtime,
    azure: Azure,
    pool: PoolName,
    group: String,
    imds: String,
    wire: String,
}

/// Returns the shared embedded Azure, starting it on the first call.
pub(crate) fn azure() -> &'static Embedded {
    static AZURE: OnceLock<Embedded> = OnceLock::new();
    AZURE.get_or_init(Embedded::start)
}

impl Embedded {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let wall = "2026-11-15T12:00:00Z".parse().expect("a time");
        let mut world = WorldSpec::default();
        world.pools[0].capacity = INSTANCES;
        let sim = Sim::new(world, Options::instant(wall)).expect("a world");
        let folder = tempfile::tempdir().expect("a folder");
        let tls = Tls::open(folder.path(), &[], wall).expect("certificates");
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let bind = || runtime.block_on(Sockets::bind(Listen { arm: any, imds: any, wire: any }));
        let sockets = testkit::private().inside(bind).expect("loopback");
        let imds = format!("http://{}", sockets.addresses.imds);
        let wire = format!("http://{}", sockets.addresses.wire);
        runtime.spawn(sockets.serve(sim.clone(), tls.config, None, std::future::pending()));
        let spec = sim.spec();
        let http: Arc<dyn HttpClient> = {
            let sim = sim.clone();
            Arc::new(InProcess::new(move |request| sim.arm(request).answer()))
        };
        let cloud = Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).expect("a cloud");
        let identity = Identity::ServicePrincipal(ServicePrincipal {
            tenant: spec.tenant_id.clone(),
            client_id: spec.clients[0].client_id.clone(),
            secret: Secret::new(spec.clients[0].client_secret.clone()),
        });
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).expect("a credential");
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).expect("a scope");
        let options = AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None };
        let pool = spec.pools[0].name.parse().expect("a name");
        let group = spec.resource_group.clone();
        Self { runtime, azure: Azure::new(scope, options), pool, group, imds, wire }
    }

    /// Reads an instance through ARM.
    pub(crate) fn instance(&self, number: u32) -> Instance {
        let id = number.to_string().parse().expect("an id");
        self.runtime.block_on(self.azure.describe_instance(&self.pool, &id)).expect("an instance")
    }

    /// Changes an instance's user data through ARM.
    pub(crate) fn set_user_data(&self, number: u32, bytes: &[u8]) {
        let instance = self.instance(number);
        let user_data = SecretBytes::new(bytes);
        let set = self.azure.set_user_data(&self.pool, &instance.id, &instance.vm_id, &user_data);
        assert!(self.runtime.block_on(set).expect("accepted by ARM"), "another machine");
    }

    /// The resource group of the pool.
    pub(crate) fn resource_group(&self) -> String {
        self.group.clone()
    }

    /// The client, and the pool of the instances.
    pub(crate) fn factory(&self) -> (&Runtime, &Azure, &PoolName) {
        (&self.runtime, &self.azure, &self.pool)
    }

    /// The base URL of an instance's metadata service.
    pub(crate) fn imds(&self, instance: &Instance) -> String {
        format!("{}/vm/{}", self.imds, instance.node_name)
    }

    /// The base URL of an instance's wire server.
    pub(crate) fn wire(&self, instance: &Instance) -> String {
        format!("{}/vm/{}", self.wire, instance.node_name)
    }

    /// The last health report that an instance sent to the wire server.
    pub(crate) fn health(&self, number: u32) -> String {
        let url = format!("{}/kiln/health", self.imds(&self.instance(number)));
        let ask = || ureq::get(&url).call().expect("an answer").into_body().read_to_string().expect("text");
        testkit::private().inside(ask)
    }
}
