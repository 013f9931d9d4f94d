//! A transport into the embedded Azure. Each exchange with ARM is checked against Azure's published specifications.

use std::sync::{Arc, Mutex, PoisonError};

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

/// Paths without a stored specification.
const WITHOUT_SPEC: [&str; 3] = [
    "/subscriptions/{id}/providers/Microsoft.Compute/locations/{region}/{operations}/{operation}",
    "/{scope*}/providers/Microsoft.Network/{rest*}",
    "/{scope*}/providers/Microsoft.Authorization/{rest*}",
];

/// ARM and Entra in this process.
fn front(sim: &Sim) -> Arc<dyn HttpClient> {
    let sim = sim.clone();
    Arc::new(InProcess::new(move |request| sim.arm(request).answer()))
}

/// The metadata service in this process.
fn metadata(sim: &Sim) -> Arc<dyn HttpClient> {
    let sim = sim.clone();
    Arc::new(InProcess::new(move |request| sim.imds(None, &request).answer()))
}

/// Checks each exchange against the specifications. Fails the test when it is dropped if an exchange violated them.
pub(crate) struct SpecChecker {
    specs: Option<Specs>,
    exchanges: Mutex<Vec<Exchange>>,
    findings: Mutex<Vec<String>>,
}

impl std::fmt::Debug for SpecChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpecChecker")
    }
}

impl SpecChecker {
    fn new() -> Self {
        let specs = specs().cloned().map(|specs| specs.without_spec(WITHOUT_SPEC));
        Self { specs, exchanges: Mutex::default(), findings: Mutex::default() }
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap().clone()
    }
}

impl Drop for SpecChecker {
    fn drop(&mut self) {
        let findings = self.findings.get_mut().unwrap_or_else(PoisonError::into_inner);
        assert!(findings.is_empty() || std::thread::panicking(), "{}", findings.join("\n"));
    }
}

impl Recorder for SpecChecker {
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
            self.findings.lock().unwrap().extend(findings.iter().map(ToString::to_string));
        }
        self.exchanges.lock().unwrap().push(exchange);
    }
}

/// A simulated Azure, and clients for it.
pub(crate) struct Embedded {
    pub(crate) sim: Sim,
    pub(crate) checker: Arc<SpecChecker>,
}

impl Embedded {
    pub(crate) fn new(spec: WorldSpec, speed: Speed, faults: &str) -> Self {
        Self::seeded(spec, speed, faults, 1)
    }

    pub(crate) fn seeded(spec: WorldSpec, pace: Speed, faults: &str, seed: u64) -> Self {
        let wall = "2026-11-15T12:00:00Z".parse().unwrap();
        let faults = FaultPlan::parse("faults", faults).unwrap();
        let sim = Sim::new(spec, Options { speed: pace, faults, seed, ..Options::instant(wall) }).unwrap();
        Self { sim, checker: Arc::new(SpecChecker::new()) }
    }

    /// The default environment, with Azure's durations in virtual time.
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

    /// Returns a client with its own credential. To Azure, each one looks like another process.
    pub(crate) fn azure(&self) -> Azure {
        self.azure_as(self.principal())
    }

    pub(crate) fn azure_as(&self, identity: Identity) -> Azure {
        self.client(identity, self.http())
    }

    /// Returns a client that uses another transport.
    pub(crate) fn azure_through(&self, http: Arc<dyn HttpClient>) -> Azure {
        self.client(self.principal(), http)
    }

    fn client(&self, identity: Identity, http: Arc<dyn HttpClient>) -> Azure {
        let cloud = Self::cloud();
        let credential = Login { cloud: cloud.clone(), identity }.credential(&http).unwrap();
        let spec = self.sim.spec();
        let scope = Scope::new(&spec.subscription_id, &spec.resource_group).unwrap();
        let recorder: Arc<dyn Recorder> = self.checker.clone();
        Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: Some(recorder) })
    }

    pub(crate) fn pool(&self) -> PoolName {
        self.sim.spec().pools[0].name.parse().unwrap()
    }

    /// Counts the requests with this method and path suffix.
    pub(crate) fn count(&self, method: &str, path_suffix: &str) -> usize {
        let has_suffix = |e: &Exchange| Url::parse(&e.url).is_ok_and(|url| url.path().ends_with(path_suffix));
        self.checker.exchanges().iter().filter(|e| e.method == method && has_suffix(e)).count()
    }
}
