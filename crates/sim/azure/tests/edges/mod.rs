//! Requests to the services of the embedded Azure, without sockets.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use jiff::Timestamp;
use kiln_sim_azure::{FaultPlan, Options, Sim, WorldSpec};
use serde_json::Value;

pub(crate) const NODE: &str = "k8s-agentpool1-26100436-vmss000000";
pub(crate) const HOST: &str = "localhost:8443";

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().expect("a time")
}

pub(crate) fn parse_world(text: &str) -> WorldSpec {
    WorldSpec::parse("world", text).expect("a world file")
}

pub(crate) fn sim() -> Sim {
    sim_with(WorldSpec::default())
}

pub(crate) fn sim_with(spec: WorldSpec) -> Sim {
    Sim::new(spec, Options::instant(start())).expect("a simulation")
}

pub(crate) fn faulty(faults: &str) -> Sim {
    let faults = FaultPlan::parse("faults", faults).expect("a fault plan");
    Sim::new(WorldSpec::default(), Options { faults, ..Options::instant(start()) }).expect("a simulation")
}

pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Got {
    pub(crate) fn from_response(response: Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { status: parts.status.as_u16(), headers: parts.headers, text, body }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header `{name}`")).to_str().expect("text")
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Bytes> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Bytes::from(body.to_owned())).expect("a request")
}

/// Sends a request to ARM or Entra, at [`HOST`].
pub(crate) fn arm(sim: &Sim, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let headers: Vec<_> = [("host", HOST)].iter().chain(headers).copied().collect();
    Got::from_response(sim.arm(request(method, path, &headers, body)).answer().expect("an answer"))
}

pub(crate) fn form(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| text.replace('%', "%25").replace('&', "%26").replace('+', "%2B").replace(' ', "+");
    pairs.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

/// Requests a token of the first client for [`HOST`].
pub(crate) fn token(sim: &Sim) -> String {
    let spec = sim.spec();
    let body = form(&[
        ("grant_type", "client_credentials"),
        ("client_id", &spec.clients[0].client_id),
        ("client_secret", &spec.clients[0].client_secret),
        ("scope", &format!("https://{HOST}/.default")),
    ]);
    let got = arm(sim, "POST", &format!("/{}/oauth2/v2.0/token", spec.tenant_id), &[], &body);
    assert_eq!(got.status, 200, "{}", got.text);
    got.body["access_token"].as_str().expect("a token").to_owned()
}

pub(crate) fn subscriptions(sim: &Sim, token: &str) -> Got {
    let bearer = format!("Bearer {token}");
    arm(sim, "GET", "/subscriptions?api-version=2022-12-01", &[("authorization", &bearer)], "")
}
