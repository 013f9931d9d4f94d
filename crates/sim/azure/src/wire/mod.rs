//! The wire server: serves the goal state, and receives health and provisioning reports.

mod report;
mod xml;

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use crate::arm::call::Query;
use crate::imds::{Caller, identify};
use crate::sim::State;
use crate::world::resource::Resource;
use crate::world::vm::Vm;

/// Versions of the protocol. Agents choose the one they support.
const VERSIONS: [&str; 6] = ["2015-04-05", "2012-11-30", "2012-09-15", "2012-05-15", "2011-12-31", "2011-10-15"];

struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, message.into())
    }

    fn respond(&self) -> Response<Bytes> {
        let Self(status, message) = self;
        let mut response = xml_response(&xml::error(status.canonical_reason().unwrap_or_default(), message));
        *response.status_mut() = *status;
        if *status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
        }
        response
    }
}

fn xml_response(body: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_owned()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=utf-8"));
    response
}

/// Answers a request to the wire server.
pub(crate) fn answer(state: &mut State, peer: Option<IpAddr>, request: &Request<Bytes>) -> Response<Bytes> {
    let caller = match identify(&state.world, peer, request.uri().path()) {
        Ok(caller) => caller,
        Err(message) => return Refusal(StatusCode::NOT_FOUND, message).respond(),
    };
    serve(state, &caller, request).unwrap_or_else(|refusal| refusal.respond())
}

fn serve(state: &mut State, caller: &Caller, request: &Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let comp = query.get("comp").unwrap_or_default().to_ascii_lowercase();
    let path = caller.path.trim_end_matches('/').to_ascii_lowercase();
    match (path.as_str(), comp.as_str()) {
        ("", "versions") => {
            require_method(request, &Method::GET)?;
            Ok(xml_response(&xml::versions(&VERSIONS)))
        }
        ("/machine", "goalstate") => {
            require_method(request, &Method::GET)?;
            check_protocol_version(request)?;
            let goal = goal(state, caller, request)?;
            Ok(xml_response(&xml::goal_state(&goal)))
        }
        ("/machine", "health") => {
            require_method(request, &Method::POST)?;
            check_protocol_version(request)?;
            let goal = goal(state, caller, request)?;
            let report = report::from_xml(request.body(), &goal)?;
            store_report(state, caller, request, report)
        }
        ("/provisioning/health", _) => {
            require_method(request, &Method::POST)?;
            let report = report::from_json(request)?;
            store_report(state, caller, request, report)
        }
        (below, "config") if below.starts_with("/machine/") => {
            require_method(request, &Method::GET)?;
            check_protocol_version(request)?;
            let goal = goal(state, caller, request)?;
            if below != format!("/machine/{}/{}", goal.container, goal.instance).to_ascii_lowercase() {
                return Err(stale_goal_state());
            }
            match query.get("type").unwrap_or_default().to_ascii_lowercase().as_str() {
                "sharedconfig" => Ok(xml_response(&xml::shared_config(&goal))),
                other => Err(Refusal(StatusCode::NOT_FOUND, format!("unknown configuration type `{other}`"))),
            }
        }
        _ => Err(Refusal(StatusCode::NOT_FOUND, format!("no resource at `{}`", caller.path))),
    }
}

/// The goal state of a VM.
struct Goal {
    /// `http://host:port[/vm/NAME]`.
    base: String,
    incarnation: u64,
    container: String,
    instance: String,
    deployment: String,
    role: String,
    address: String,
}

fn goal(state: &State, caller: &Caller, request: &Request<Bytes>) -> Result<Goal, Refusal> {
    let found = state.world.resources.get(&caller.key).and_then(|resource| Some((resource, resource.vm.as_ref()?)));
    let (resource, vm): (&Resource, &Vm) =
        found.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, "the VM does not exist".to_owned()))?;
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("168.63.129.16");
    Ok(Goal {
        base: format!("http://{host}{}", caller.prefix),
        // Each write of the VM's model is a new incarnation.
        incarnation: resource.revision.max(1),
        // A container is the VM's placement on a host. Here it changes with the OS disk, whose `unique_id` it is derived from.
        container: resource.unique_id.clone(),
        instance: format!("{}._{}", vm.vm_id, vm.name),
        deployment: resource.id.parent().unwrap_or_else(|| resource.id.clone()).name().to_owned(),
        role: vm.name.clone(),
        address: vm.address.to_string(),
    })
}

fn stale_goal_state() -> Refusal {
    Refusal(
        StatusCode::GONE,
        "the container or role instance is not the current one; read the goal state again".to_owned(),
    )
}

/// Stores the guest's report with its time.
fn store_report(
    state: &mut State,
    caller: &Caller,
    request: &Request<Bytes>,
    mut report: serde_json::Value,
) -> Result<Response<Bytes>, Refusal> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let agent = header("x-ms-guest-agent-name").or_else(|| header("x-ms-agent-name")).or_else(|| header("user-agent"));
    report["agent"] = agent.into();
    report["time"] = state.world.now.to_string().into();
    let vm = state.world.resources.get_mut(&caller.key).and_then(|resource| resource.vm.as_mut());
    let vm = vm.ok_or_else(|| Refusal(StatusCode::NOT_FOUND, "the VM does not exist".to_owned()))?;
    vm.health = Some(report);
    Ok(Response::new(Bytes::new()))
}

fn require_method(request: &Request<Bytes>, method: &Method) -> Result<(), Refusal> {
    if request.method() == method {
        return Ok(());
    }
    Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not allowed here; use {method}", request.method())))
}

/// Checks the protocol version, which every request except that for the versions must have.
fn check_protocol_version(request: &Request<Bytes>) -> Result<(), Refusal> {
    match request.headers().get("x-ms-version").map(|value| value.to_str().unwrap_or_default()) {
        None => Err(Refusal::bad("the header `x-ms-version` is missing")),
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(version) => Err(Refusal::bad(format!(
            "unsupported version `{version}` in the header `x-ms-version`; expected one of {}",
            VERSIONS.join(", ")
        ))),
    }
}
