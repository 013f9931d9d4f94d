//! A client of the embedded Azure without sockets. Each exchange is checked against Azure's OpenAPI files.

#![expect(dead_code, reason = "each test binary uses a part")]

use std::cell::RefCell;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use jiff::Timestamp;
use kiln_sim_azure::{FaultPlan, Options, Reply, Sim, Speed, WorldSpec};
use serde_json::{Value, json};
use testkit::openapi::{Exchange, Finding, Specs};

/// API versions of the stored specifications.
pub(crate) const COMPUTE: &str = "2024-03-01";
pub(crate) const GALLERY: &str = "2023-07-03";
pub(crate) const DISK: &str = "2023-10-02";
pub(crate) const NETWORK: &str = "2023-09-01";
pub(crate) const RESOURCES: &str = "2022-09-01";
pub(crate) const SUBSCRIPTIONS: &str = "2022-12-01";

pub(crate) const POOL: &str = "k8s-agentpool1-26100436-vmss";

/// Paths without a stored specification.
const WITHOUT_SPEC: [&str; 5] = [
    "/metadata/endpoints",
    "/{tenant}/oauth2/v2.0/token",
    "/subscriptions/{id}/providers/Microsoft.Compute/locations/{region}/{operations}/{operation}",
    "/{scope*}/providers/Microsoft.Network/{rest*}",
    "/{scope*}/providers/Microsoft.Authorization/{rest*}",
];

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}

pub(crate) struct Client {
    pub(crate) sim: Sim,
    token: String,
    specs: Option<Specs>,
    findings: RefCell<Vec<Finding>>,
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no header {name} in {:?}", self.headers))
            .to_str()
            .expect("text")
    }

    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

impl Client {
    pub(crate) fn instant() -> Self {
        Self::with_options(WorldSpec::default(), Options::instant(start()))
    }

    pub(crate) fn faulty(faults: &str) -> Self {
        let faults = FaultPlan::parse("faults", faults).expect("a fault plan");
        Self::with_options(WorldSpec::default(), Options { faults, ..Options::instant(start()) })
    }

    pub(crate) fn at_speed(factor: f64) -> Self {
        Self::with_options(WorldSpec::default(), Options { speed: Speed::Factor(factor), ..Options::instant(start()) })
    }

    pub(crate) fn with_options(spec: WorldSpec, options: Options) -> Self {
        Self::for_sim(Sim::new(spec, options).expect("a simulation"))
    }

    pub(crate) fn for_sim(sim: Sim) -> Self {
        let specs = testkit::openapi::specs().cloned().map(|specs| specs.without_spec(WITHOUT_SPEC));
        let mut client = Self { sim, token: String::new(), specs, findings: RefCell::default() };
        client.login();
        client
    }

    /// Requests a new token.
    pub(crate) fn login(&mut self) {
        let spec = self.sim.spec();
        let form = format!(
            "grant_type=client_credentials&client_id={}&client_secret={}&scope=https://sim.localhost/.default",
            spec.clients[0].client_id, spec.clients[0].client_secret
        );
        let request = Request::post(format!("https://sim.localhost/{}/oauth2/v2.0/token", spec.tenant_id))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Bytes::from(form))
            .expect("a request");
        let answer = self.sim.arm(request).answer().expect("an answer");
        let body: Value = serde_json::from_slice(answer.body()).expect("json");
        body["access_token"].as_str().unwrap_or_else(|| panic!("no token: {body}")).clone_into(&mut self.token);
    }

    pub(crate) fn group(&self) -> String {
        let spec = self.sim.spec();
        format!("/subscriptions/{}/resourceGroups/{}", spec.subscription_id, spec.resource_group)
    }

    /// A path below `Microsoft.Compute` of the resource group.
    pub(crate) fn compute(&self, rest: &str) -> String {
        format!("{}/providers/Microsoft.Compute/{rest}", self.group())
    }

    pub(crate) fn try_send(
        &self,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Option<Got> {
        let uri = if url.starts_with("https://") { url.to_owned() } else { format!("https://sim.localhost{url}") };
        let mut request = Request::builder()
            .method(method.clone())
            .uri(&uri)
            .header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let Reply::Answer(answer) = self.sim.arm(request.body(bytes).expect("a request")) else { return None };
        let (parts, bytes) = answer.into_parts();
        let value = (!bytes.is_empty()).then(|| serde_json::from_slice::<Value>(&bytes).expect("json"));
        self.check(method, &uri, body, parts.status.as_u16(), value.as_ref());
        Some(Got { status: parts.status.as_u16(), headers: parts.headers, body: value.unwrap_or_default() })
    }

    /// Whether exchanges are compared with Azure's specifications, which a clone without recorded data does not have.
    pub(crate) fn has_specs(&self) -> bool {
        self.specs.is_some()
    }

    /// Returns the findings so far, for a test that violates the specifications on purpose.
    pub(crate) fn take_findings(&self) -> Vec<String> {
        self.findings.take().iter().map(ToString::to_string).collect()
    }

    fn check(&self, method: &Method, uri: &str, request: Option<&Value>, status: u16, response: Option<&Value>) {
        let Some(specs) = &self.specs else { return };
        let exchange = Exchange {
            method: method.to_string(),
            url: uri.to_owned(),
            request: request.cloned(),
            status,
            response: response.cloned(),
        };
        self.findings.borrow_mut().extend(specs.check(&exchange));
    }

    pub(crate) fn send(&self, method: &Method, url: &str, body: Option<&Value>) -> Got {
        self.try_send(method, url, &[], body).expect("an answer")
    }

    pub(crate) fn get(&self, path: &str, version: &str) -> Got {
        self.send(&Method::GET, &with_version(path, version), None)
    }

    pub(crate) fn put(&self, path: &str, version: &str, body: &Value) -> Got {
        self.send(&Method::PUT, &with_version(path, version), Some(body))
    }

    pub(crate) fn patch(&self, path: &str, version: &str, body: &Value) -> Got {
        self.send(&Method::PATCH, &with_version(path, version), Some(body))
    }

    pub(crate) fn post(&self, path: &str, version: &str, body: Option<&Value>) -> Got {
        self.send(&Method::POST, &with_version(path, version), body)
    }

    pub(crate) fn delete(&self, path: &str, version: &str) -> Got {
        self.send(&Method::DELETE, &with_version(path, version), None)
    }

    /// Checks that a request succeeded and waits for its operation.
    pub(crate) fn done(&self, got: Got) -> Got {
        assert!((200..300).contains(&got.status), "{} {}", got.status, got.body);
        if got.headers.contains_key("azure-asyncoperation") {
            let end = self.operation(&got);
            assert_eq!(end["status"], "Succeeded", "{end}");
        }
        got
    }

    /// The status of the operation that a request started.
    pub(crate) fn operation(&self, got: &Got) -> Value {
        self.send(&Method::GET, got.header("azure-asyncoperation"), None).body
    }

    /// Creates everything that a version needs: a snapshot of an OS disk, a gallery and a definition.
    pub(crate) fn ready_for_version(&self) -> String {
        let instance = self.get(&self.compute(&format!("virtualMachineScaleSets/{POOL}/virtualMachines/0")), COMPUTE);
        let disk = instance.body["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"]
            .as_str()
            .expect("an OS disk")
            .to_owned();
        let snapshot = json!({"location": "westus2", "sku": {"name": "Standard_LRS"},
            "properties": {"creationData": {"createOption": "Copy", "sourceResourceId": disk}}});
        self.done(self.put(&self.compute("snapshots/snap"), DISK, &snapshot));
        self.done(self.put(
            &self.compute("galleries/SIG_x"),
            GALLERY,
            &json!({"location": "westus2", "properties": {}}),
        ));
        let definition = json!({"location": "westus2", "properties": {"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V1",
            "identifier": {"publisher": "p", "offer": "o", "sku": "s"}}});
        self.done(self.put(&self.compute("galleries/SIG_x/images/def"), GALLERY, &definition));
        self.compute("galleries/SIG_x/images/def/versions")
    }

    pub(crate) fn version_body(&self, storage: &str, excluded: bool) -> Value {
        json!({"location": "westus2", "properties": {
            "publishingProfile": {"replicaCount": 3, "storageAccountType": storage, "excludeFromLatest": excluded, "targetRegions": [{"name": "westus2"}]},
            "storageProfile": {"osDiskImage": {"source": {"id": self.compute("snapshots/snap")}}},
        }})
    }
}

/// Fails the test if one of its exchanges violated the specifications and the test did not take the findings.
impl Drop for Client {
    fn drop(&mut self) {
        let findings = self.take_findings();
        assert!(findings.is_empty() || std::thread::panicking(), "{}", findings.join("\n"));
    }
}

pub(crate) fn with_version(path: &str, version: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}api-version={version}")
}
