//! The metadata service and the wire server of a world: the embedded Azure's, asked by machines that really run.
//!
//! The embedded Azure is made anew from the state folder whenever that has changed. What it had to make up, the ids and addresses of its
//! machines and the image that they are of, is replaced in its answers by what the machines really are.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kiln_local::sandbox::{METADATA, WIRE_SERVER, number_at};
use kiln_local::{MachineSummary, ids};
use kiln_sim_azure::{Options, PoolSpec, ResourceSpec, Sim, WorldSpec};
use kiln_types::CANARY_TAG;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::factory::{Local, image_id, user_data};
use crate::failure::{Failure, chain};
use crate::prototype::connect::Now;

const PORT: u16 = 80;
/// More than a report of readiness has; what is longer comes from nobody's agent.
const LONGEST: usize = 1 << 20;

/// What is asked on a connection.
#[derive(Debug, Clone, Copy)]
enum Face {
    Imds,
    Wire,
}

/// Answers for as long as the world lasts.
pub(super) struct Metadata {
    local: Local,
    now: Now,
    last: Mutex<Option<Arc<Azure>>>,
}

/// An embedded Azure with a machine for each of the world.
struct Azure {
    sim: Sim,
    machines: Vec<MachineSummary>,
    user_data: BTreeMap<String, String>,
}

impl Metadata {
    /// Listens where a cloud does.
    pub(super) async fn start(local: Local, now: Now) -> Result<(), Failure> {
        let metadata = Arc::new(Self { local, now, last: Mutex::default() });
        for (address, face) in [(METADATA, Face::Imds), (WIRE_SERVER, Face::Wire)] {
            let address = SocketAddr::from((address, PORT));
            let listener = TcpListener::bind(address).await;
            let listener =
                listener.map_err(|error| Failure::failed(format_args!("cannot listen on {address}: {error}")))?;
            tokio::spawn(metadata.clone().serve(listener, face));
        }
        Ok(())
    }

    async fn serve(self: Arc<Self>, listener: TcpListener, face: Face) {
        loop {
            let Ok((stream, peer)) = listener.accept().await else { continue };
            let metadata = self.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let metadata = metadata.clone();
                    async move { Ok::<_, Infallible>(metadata.answer(face, peer.ip(), request).await) }
                });
                // A machine that is switched off in the middle is its own affair.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }

    async fn answer(&self, face: Face, peer: IpAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, LONGEST).collect().await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "too long");
        };
        let azure = match self.azure().await {
            Ok(azure) => azure,
            Err(why) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
        };
        let number = match peer.to_canonical() {
            IpAddr::V4(address) => number_at(address),
            IpAddr::V6(_) => None,
        };
        let machine = azure.machines.iter().find(|machine| Some(machine.number) == number);
        let Some(machine) = machine else {
            return refusal(StatusCode::NOT_FOUND, &format!("{peer} is not the address of a machine of this world"));
        };
        azure.answer(face, machine, &Request::from_parts(head, body.to_bytes()))
    }

    /// The embedded Azure of the state folder as it is now.
    async fn azure(&self) -> Result<Arc<Azure>, String> {
        let machines = self.local.machines().await.map_err(|error| chain(&error))?;
        let folder = self.local.store().folder();
        let mut told = BTreeMap::new();
        for pool in machines.iter().filter_map(pool_of) {
            match std::fs::read_to_string(user_data(&folder, &pool)) {
                Ok(text) => drop(told.insert(pool, text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(format!("user data of pool `{pool}`: {error}")),
            }
        }
        let mut last = self.last.lock().await;
        match last.as_ref() {
            Some(azure) if azure.machines == machines && azure.user_data == told => Ok(azure.clone()),
            _ => {
                let azure = Arc::new(Azure::new(machines, told, &self.now)?);
                *last = Some(azure.clone());
                Ok(azure)
            }
        }
    }
}

/// The pool whose user data a machine has: its own, or the one that it is a canary of.
fn pool_of(machine: &MachineSummary) -> Option<String> {
    let (pool, _) = machine.membership.as_ref()?;
    Some(machine.tags.get(CANARY_TAG).cloned().unwrap_or_else(|| pool.to_string()))
}

impl Azure {
    fn new(machines: Vec<MachineSummary>, user_data: BTreeMap<String, String>, now: &Now) -> Result<Self, String> {
        let mut pools: BTreeMap<String, PoolSpec> = BTreeMap::new();
        let mut alone = Vec::new();
        let defaults = WorldSpec { resource_group: ids::GROUP.to_owned(), ..WorldSpec::default() };
        for machine in &machines {
            let Some((pool, instance)) = &machine.membership else {
                alone.extend(parts(&defaults, machine));
                continue;
            };
            let number: u32 = instance.as_str().parse().map_err(|_| format!("`{instance}` is no number"))?;
            let told = pool_of(machine).and_then(|pool| user_data.get(&pool));
            let known = pools.entry(pool.to_string());
            let spec = known.or_insert_with(|| spec(pool.as_str(), machine, told));
            spec.capacity = spec.capacity.max(number + 1);
        }
        let world = WorldSpec {
            subscription_name: "local".to_owned(),
            pools: pools.into_values().collect(),
            resources: alone,
            ..defaults
        };
        let sim = Sim::new(world, Options::instant(now.as_ref()())).map_err(|error| chain(&error))?;
        Ok(Self { sim, machines, user_data })
    }

    fn answer(&self, face: Face, machine: &MachineSummary, request: &Request<Bytes>) -> Response<Full<Bytes>> {
        let played = self.sim.machines().into_iter().find(|played| played.name == machine.name.as_str());
        let Some(played) = played else {
            return refusal(StatusCode::NOT_FOUND, &format!("`{}` is not known here", machine.name));
        };
        let peer = Some(IpAddr::V4(played.address));
        let reply = match face {
            Face::Imds => self.sim.imds(peer, request),
            Face::Wire => self.sim.wire(peer, request),
        };
        let Some(response) = reply.answer() else { return refusal(StatusCode::SERVICE_UNAVAILABLE, "not now") };
        let own = kiln_local::sandbox::address(machine.number).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let real = Real {
            swapped: [(played.vm_id, machine.vm_id.clone()), (played.address.to_string(), own.to_string())],
            image: image_id(&machine.image),
        };
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let answered = response.status().is_success();
        response.map(|body| Full::new(if answered { real.put_into(&path, &body) } else { body }))
    }
}

fn spec(pool: &str, machine: &MachineSummary, told: Option<&String>) -> PoolSpec {
    let mut spec = WorldSpec::default().pools.swap_remove(0);
    pool.clone_into(&mut spec.name);
    spec.capacity = 0;
    spec.custom_data = None;
    spec.extensions = Vec::new();
    spec.user_data = told.cloned();
    spec.tags = machine.tags.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    spec
}

/// A machine that is of no pool, as it would be made in Azure: its interface and itself.
fn parts(world: &WorldSpec, machine: &MachineSummary) -> [ResourceSpec; 2] {
    let (name, location) = (machine.name.as_str(), &world.location);
    let group = format!("/subscriptions/{}/resourceGroups/{}", world.subscription_id, world.resource_group);
    let interface = format!("Microsoft.Network/networkInterfaces/{name}");
    let wiring = json!([{"name": "own", "properties": {}}]);
    let body = json!({
        "location": location,
        "tags": machine.tags,
        "properties": {
            "hardwareProfile": {"vmSize": "Standard_D2s_v3"},
            "osProfile": {"computerName": machine.computer_name},
            // Told as what it really is, see `Real`.
            "storageProfile": {"imageReference": {"publisher": "p", "offer": "o", "sku": "s", "version": "latest"}},
            "networkProfile": {"networkInterfaces": [{"id": format!("{group}/providers/{interface}")}]},
        },
    });
    let fields = |value: Value| value.as_object().cloned().unwrap_or_default();
    let wired = json!({"location": location, "properties": {"ipConfigurations": wiring}});
    [
        ResourceSpec { path: interface, body: fields(wired) },
        ResourceSpec { path: format!("Microsoft.Compute/virtualMachines/{name}"), body: fields(body) },
    ]
}

/// What is said of an image that somebody sells; there are none here.
const FOR_SALE: [&str; 4] = ["offer", "publisher", "sku", "version"];

/// What a machine really is.
struct Real {
    /// What the embedded Azure made up, and what is so.
    swapped: [(String, String); 2],
    image: String,
}

impl Real {
    fn put_into(&self, path: &str, body: &Bytes) -> Bytes {
        let Ok(text) = std::str::from_utf8(body) else { return body.clone() };
        let (_, leaf) = path.rsplit_once('/').unwrap_or(("", path));
        if path.ends_with("/imageReference/id") {
            return Bytes::from(self.image.clone());
        }
        if FOR_SALE.contains(&leaf) {
            return Bytes::new();
        }
        if let Some(leaf) = self.swap(text) {
            return Bytes::from(leaf);
        }
        match serde_json::from_str::<Value>(text) {
            Ok(mut value) if value.is_object() || value.is_array() => {
                self.walk(&mut value);
                Bytes::from(value.to_string())
            }
            _ => body.clone(),
        }
    }

    fn swap(&self, text: &str) -> Option<String> {
        self.swapped.iter().find(|(made_up, _)| made_up == text).map(|(_, real)| real.clone())
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(real) = self.swap(text) {
                    *text = real;
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|one| self.walk(one)),
            Value::Object(fields) => {
                for (name, field) in fields.iter_mut() {
                    match name.as_str() {
                        "imageReference" => {
                            *field = json!({"id": self.image, "offer": "", "publisher": "", "sku": "", "version": ""});
                        }
                        name if FOR_SALE.contains(&name) && field.is_string() => *field = json!(""),
                        _ => self.walk(field),
                    }
                }
            }
            _ => {}
        }
    }
}

fn refusal(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(json!({"error": why}).to_string())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real() -> Real {
        let swapped = [("made-up", "real"), ("10.240.0.4", "10.77.1.2")];
        Real { swapped: swapped.map(|(a, b)| (a.to_owned(), b.to_owned())), image: "/local/images/debian".to_owned() }
    }

    #[test]
    fn what_was_made_up_is_replaced_wherever_a_machine_may_ask_for_it() {
        let tree = json!({
            "compute": {
                "vmId": "made-up", "name": "pool_0", "sku": "22_04", "storageProfile": {"imageReference": {"offer": "x"}},
            },
            "network": {"interface": [{"ipv4": {"ipAddress": [{"privateIpAddress": "10.240.0.4"}]}}]},
        });
        let body = real().put_into("/metadata/instance", &Bytes::from(tree.to_string()));
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(told["compute"]["vmId"], "real");
        assert_eq!((&told["compute"]["name"], &told["compute"]["sku"]), (&json!("pool_0"), &json!("")));
        assert_eq!(told["compute"]["storageProfile"]["imageReference"]["id"], "/local/images/debian");
        assert_eq!(told["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"], "10.77.1.2");

        let leaf = |path: &str, text: &str| real().put_into(path, &Bytes::from(text.to_owned()));
        assert_eq!(leaf("/metadata/instance/compute/vmId", "made-up"), "real");
        assert_eq!(leaf("/metadata/instance/compute/storageProfile/imageReference/id", ""), "/local/images/debian");
        assert_eq!(leaf("/metadata/instance/compute/offer", "ubuntu"), "");
        assert_eq!(leaf("/metadata/instance/compute/userData", "made-up by others"), "made-up by others");
    }
}
