//! The metadata service and the wire server of a sandbox: those of the embedded Azure, for machines that really run.
//!
//! An embedded Azure is created from the state folder, and again whenever the folder has changed. Its simulated VM ids, addresses and images
//! are replaced in every answer by those of the real machines.

use std::collections::BTreeMap;
use std::convert::Infallible;
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
use kiln_local::{MachineKey, MachineSummary, ids};
use kiln_sim_azure::{Options, PoolSpec, ResourceSpec, Sim, WorldSpec};
use kiln_types::Secret;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::factory::{Local, image_id};
use crate::failure::{Failure, chain};
use crate::prototype::connect::Now;

const PORT: u16 = 80;
/// Longer than any request of an agent.
const MAX_BODY: usize = 1 << 20;

/// The service behind an address.
#[derive(Debug, Clone, Copy)]
enum Service {
    Metadata,
    WireServer,
}

/// Answers until the sandbox ends.
pub(super) struct Metadata {
    local: Local,
    now: Now,
    last: Mutex<Option<Arc<Azure>>>,
}

/// An embedded Azure with the machines of the sandbox.
struct Azure {
    sim: Sim,
    machines: Vec<MachineSummary>,
    user_data: BTreeMap<MachineKey, Secret>,
}

impl Metadata {
    /// Listens on the addresses of a cloud.
    pub(super) async fn start(local: Local, now: Now) -> Result<(), Failure> {
        let metadata = Arc::new(Self { local, now, last: Mutex::default() });
        for (address, service) in [(METADATA, Service::Metadata), (WIRE_SERVER, Service::WireServer)] {
            let address = SocketAddr::from((address, PORT));
            let listener = TcpListener::bind(address).await;
            let listener =
                listener.map_err(|error| Failure::failed(format_args!("cannot listen on {address}: {error}")))?;
            tokio::spawn(metadata.clone().serve(listener, service));
        }
        Ok(())
    }

    async fn serve(self: Arc<Self>, listener: TcpListener, service: Service) {
        loop {
            let Ok((stream, peer)) = listener.accept().await else { continue };
            let metadata = self.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let metadata = metadata.clone();
                    async move { Ok::<_, Infallible>(metadata.answer(service, peer.ip(), request).await) }
                });
                // A machine may be stopped in the middle of a request.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }

    async fn answer(&self, service: Service, peer: IpAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long");
        };
        let azure = match self.azure().await {
            Ok(azure) => azure,
            Err(reason) => return refusal(StatusCode::INTERNAL_SERVER_ERROR, &reason),
        };
        let number = match peer.to_canonical() {
            IpAddr::V4(address) => number_at(address),
            IpAddr::V6(_) => None,
        };
        let machine = azure.machines.iter().find(|machine| Some(machine.number) == number);
        let Some(machine) = machine else {
            return refusal(StatusCode::NOT_FOUND, &format!("{peer} is not the address of a machine in this sandbox"));
        };
        azure.answer(service, machine, &Request::from_parts(head, body.to_bytes()))
    }

    /// The embedded Azure for the current state folder.
    async fn azure(&self) -> Result<Arc<Azure>, String> {
        let machines = self.local.machines().await.map_err(|error| chain(&error))?;
        let user_data = self.local.encoded_user_data().await.map_err(|error| chain(&error))?;
        let mut last = self.last.lock().await;
        match last.as_ref() {
            Some(azure) if azure.machines == machines && azure.user_data == user_data => Ok(azure.clone()),
            _ => {
                let azure = Arc::new(Azure::new(machines, user_data, &self.now)?);
                *last = Some(azure.clone());
                Ok(azure)
            }
        }
    }
}

impl Azure {
    fn new(machines: Vec<MachineSummary>, user_data: BTreeMap<MachineKey, Secret>, now: &Now) -> Result<Self, String> {
        let mut pools: BTreeMap<String, PoolSpec> = BTreeMap::new();
        let mut resources = Vec::new();
        let defaults = WorldSpec { resource_group: ids::GROUP.to_owned(), ..WorldSpec::default() };
        for machine in &machines {
            let Some((pool, instance)) = &machine.membership else {
                resources.extend(machine_resources(&defaults, machine));
                continue;
            };
            let number: u32 =
                instance.as_str().parse().map_err(|_| format!("instance id `{instance}` is not a number"))?;
            let known = pools.entry(pool.to_string());
            let spec = known.or_insert_with(|| spec(pool.as_str(), machine));
            spec.capacity = spec.capacity.max(number + 1);
        }
        let simulated = WorldSpec {
            subscription_name: "local".to_owned(),
            pools: pools.into_values().collect(),
            resources,
            ..defaults
        };
        let sim = Sim::new(simulated, Options::instant(now.as_ref()())).map_err(|error| chain(&error))?;
        Ok(Self { sim, machines, user_data })
    }

    fn answer(&self, service: Service, machine: &MachineSummary, request: &Request<Bytes>) -> Response<Full<Bytes>> {
        let simulated = self.sim.machines().into_iter().find(|simulated| simulated.name == machine.name.as_str());
        let Some(simulated) = simulated else {
            return refusal(StatusCode::NOT_FOUND, &format!("`{}` is not in the embedded Azure", machine.name));
        };
        let peer = Some(IpAddr::V4(simulated.address));
        let reply = match service {
            Service::Metadata => self.sim.imds(peer, request),
            Service::WireServer => self.sim.wire(peer, request),
        };
        let Some(response) = reply.answer() else { return refusal(StatusCode::SERVICE_UNAVAILABLE, "no answer") };
        let own = kiln_local::sandbox::address(machine.number).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let real = RealMachine {
            replacements: [(simulated.vm_id, machine.vm_id.clone()), (simulated.address.to_string(), own.to_string())],
            image: image_id(&machine.image),
            user_data: self.user_data.get(&machine.name).map(|data| data.expose().to_owned()).unwrap_or_default(),
        };
        let path = request.uri().path().trim_end_matches('/').to_owned();
        let is_success = response.status().is_success();
        response.map(|body| Full::new(if is_success { real.replace_in(&path, &body) } else { body }))
    }
}

fn spec(pool: &str, machine: &MachineSummary) -> PoolSpec {
    let mut spec = WorldSpec::default().pools.swap_remove(0);
    pool.clone_into(&mut spec.name);
    spec.capacity = 0;
    spec.custom_data = None;
    spec.extensions = Vec::new();
    spec.tags = machine.tags.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    spec
}

/// The resources of a machine outside of pools: its network interface and the machine.
fn machine_resources(world: &WorldSpec, machine: &MachineSummary) -> [ResourceSpec; 2] {
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
            // Replaced in answers, see `RealMachine`.
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

/// The fields of a marketplace image, which local machines do not have.
const MARKETPLACE: [&str; 4] = ["offer", "publisher", "sku", "version"];

/// The real values of a machine.
struct RealMachine {
    /// Simulated values and their replacements.
    replacements: [(String, String); 2],
    image: String,
    /// In base64, as the service returns it. The embedded Azure has none.
    user_data: String,
}

impl RealMachine {
    fn replace_in(&self, path: &str, body: &Bytes) -> Bytes {
        let Ok(text) = std::str::from_utf8(body) else { return body.clone() };
        let (_, leaf) = path.rsplit_once('/').unwrap_or(("", path));
        if path.ends_with("/imageReference/id") {
            return Bytes::from(self.image.clone());
        }
        if leaf == "userData" {
            return Bytes::from(self.user_data.clone());
        }
        if MARKETPLACE.contains(&leaf) {
            return Bytes::new();
        }
        if let Some(leaf) = self.replacement(text) {
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

    fn replacement(&self, text: &str) -> Option<String> {
        self.replacements.iter().find(|(simulated, _)| simulated == text).map(|(_, real)| real.clone())
    }

    fn walk(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(real) = self.replacement(text) {
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
                        "userData" if field.is_string() => *field = json!(self.user_data),
                        name if MARKETPLACE.contains(&name) && field.is_string() => *field = json!(""),
                        _ => self.walk(field),
                    }
                }
            }
            _ => {}
        }
    }
}

fn refusal(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(json!({"error": reason}).to_string())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real() -> RealMachine {
        let replacements = [("simulated", "real"), ("10.240.0.4", "10.77.1.2")];
        RealMachine {
            replacements: replacements.map(|(a, b)| (a.to_owned(), b.to_owned())),
            image: "/local/images/debian".to_owned(),
            user_data: "e30=".to_owned(),
        }
    }

    #[test]
    fn simulated_values_are_replaced_in_trees_and_leaves() {
        let tree = json!({
            "compute": {
                "vmId": "simulated", "name": "pool_0", "sku": "22_04", "userData": "", "storageProfile": {"imageReference": {"offer": "x"}},
            },
            "network": {"interface": [{"ipv4": {"ipAddress": [{"privateIpAddress": "10.240.0.4"}]}}]},
        });
        let body = real().replace_in("/metadata/instance", &Bytes::from(tree.to_string()));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["compute"]["vmId"], "real");
        assert_eq!(answer["compute"]["userData"], "e30=");
        assert_eq!((&answer["compute"]["name"], &answer["compute"]["sku"]), (&json!("pool_0"), &json!("")));
        assert_eq!(answer["compute"]["storageProfile"]["imageReference"]["id"], "/local/images/debian");
        assert_eq!(answer["network"]["interface"][0]["ipv4"]["ipAddress"][0]["privateIpAddress"], "10.77.1.2");

        let leaf = |path: &str, text: &str| real().replace_in(path, &Bytes::from(text.to_owned()));
        assert_eq!(leaf("/metadata/instance/compute/vmId", "simulated"), "real");
        assert_eq!(leaf("/metadata/instance/compute/storageProfile/imageReference/id", ""), "/local/images/debian");
        assert_eq!(leaf("/metadata/instance/compute/offer", "ubuntu"), "");
        assert_eq!(leaf("/metadata/instance/compute/userData", ""), "e30=");
        assert_eq!(leaf("/metadata/instance/compute/name", "simulated and more"), "simulated and more");
    }
}
