//! A transport into the embedded Azure. Every exchange with ARM is held against Azure's published specifications.

use std::sync::{Arc, Mutex};

use azure_core::http::{HttpClient, Url};
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::{Exchange, InProcess, MetadataRoute, Recorder};
use kiln_azure::{Azure, AzureOptions};
use kiln_sim_azure::{FaultPlan, Options, Sim, Speed, WorldSpec};
use kiln_types::{PoolName, Secret};
use serde_json::Value;
use testkit::openapi::{Specs, specs};

pub(crate) const ENDPOINT: &str = "https://sim.localhost:8443";

/// Paths that the stored files do not describe.
const WITHOUT_SPEC: [&str; 3] = [
    "/subscriptions/{id}/providers/Microsoft.Compute/locations/{region}/{operations}/{operation}",
    "/{scope*}/providers/Microsoft.Network/{rest*}",
    "/{scope*}/providers/Microsoft.Authorization/permissions",
];

/// ARM and Entra, without sockets.
fn front(sim: &Sim) -> Arc<dyn HttpClient> {
    let sim = sim.clone();
    Arc::new(InProcess::new(move |request| sim.arm(request).answer()))
}

/// The metadata service, without sockets.
fn metadata(sim: &Sim) -> Arc<dyn HttpClient> {
    let sim = sim.clone();
    Arc::new(InProcess::new(move |request| sim.imds(None, &request).answer()))
}

/// Holds every exchange against the specifications, where they are there.
pub(crate) struct Judge {
    specs: Option<Specs>,
    seen: Mutex<Vec<Exchange>>,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

impl Judge {
    fn new() -> Self {
        Self { specs: specs().cloned().map(|specs| specs.without_spec(WITHOUT_SPEC)), seen: Mutex::default() }
    }

    pub(crate) fn seen(&self) -> Vec<Exchange> {
        self.seen.lock().unwrap().clone()
    }
}

impl Recorder for Judge {
    fn record(&self, exchange: Exchange) {
        let json = |body: &[u8]| (!body.is_empty()).then(|| serde_json::from_slice::<Value>(body).unwrap());
        if let Some(specs) = &self.specs {
            let findings = specs.check(&testkit::openapi::Exchange {
                method: exchange.method.clone(),
                url: exchange.url.clone(),
                request: json(&exchange.request_body),
                status: exchange.status,
                response: json(&exchange.response_body),
            });
            assert!(findings.is_empty(), "{} {}: {findings:#?}", exchange.method, exchange.url);
        }
        self.seen.lock().unwrap().push(exchange);
    }
}

/// A world and what a client needs to work in it.
pub(crate) struct Embedded {
    pub(crate) sim: Sim,
    pub(crate) judge: Arc<Judge>,
}

impl Embedded {
    pub(crate) fn new(spec: WorldSpec, speed: Speed, faults: &str) -> Self {
        Self::seeded(spec, speed, faults, 1)
    }

    pub(crate) fn seeded(spec: WorldSpec, pace: Speed, faults: &str, seed: u64) -> Self {
        let wall = "2026-11-15T12:00:00Z".parse().unwrap();
        let faults = FaultPlan::parse("faults", faults).unwrap();
        let sim = Sim::new(spec, Options { speed: pace, faults, seed, ..Options::instant(wall) }).unwrap();
        Self { sim, judge: Arc::new(Judge::new()) }
    }

    /// The default world, at its own pace in virtual time.
    pub(crate) fn in_real_pace(faults: &str) -> Self {
        Self::new(WorldSpec::default(), Speed::Factor(1.0), faults)
    }

    pub(crate) fn cloud() -> Cloud {
        Cloud::custom("embedded", ENDPOINT, ENDPOINT, ENDPOINT).unwrap()
    }

    pub(crate) fn http(&self) -> Arc<dyn HttpClient> {
        let spec = self.sim.spec();
        let base = Url::parse(&format!("http://imds.localhost/vm/{}000000", spec.pools[0].name)).unwrap();
        Arc::new(MetadataRoute::new(front(&self.sim), metadata(&self.sim), Some(base)))
    }

    pub(crate) fn principal(&self) -> Identity {
        let spec = self.sim.spec();
        Identity::ServicePrincipal(ServicePrincipal {
            tenant: spec.tenant_id.clone(),
            client_id: spec.clients[0].client_id.clone(),
            secret: Secret::new(spec.clients[0].client_secret.clone()),
        })
    }

    /// A client with a credential of its own: each call is another process, as far as Azure can tell.
    pub(crate) fn azure(&self) -> Azure {
        self.azure_as(self.principal())
    }

    pub(crate) fn azure_as(&self, identity: Identity) -> Azure {
        self.client(identity, self.http())
    }

    /// A client whose every request goes through another transport.
    pub(crate) fn azure_through(&self, http: Arc<dyn HttpClient>) -> Azure {
        self.client(self.principal(), http)
    }

    fn client(&self, identity: Identity, http: Arc<dyn HttpClient>) -> Azure {
        let cloud = Self::cloud();
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let spec = self.sim.spec();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        let recorder: Arc<dyn Recorder> = self.judge.clone();
        Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: Some(recorder) })
    }

    pub(crate) fn pool(&self) -> PoolName {
        self.sim.spec().pools[0].name.parse().unwrap()
    }

    /// How often a method was used on a path that ends so.
    pub(crate) fn count(&self, method: &str, path_end: &str) -> usize {
        let ends = |e: &Exchange| Url::parse(&e.url).is_ok_and(|url| url.path().ends_with(path_end));
        self.judge.seen().iter().filter(|e| e.method == method && ends(e)).count()
    }
}
