//! The metadata service (IMDS).

mod caller;
mod control;
mod events;
mod identity;
mod instance;
mod tree;
mod version;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::arm::call::Query;
use crate::faults::FaultKind as Fault;
use crate::sim::State;

pub(crate) use caller::{Caller, identify};

/// The published limit per VM. It applies only if throttling is enabled, because tests exceed it.
const REQUESTS_PER_SECOND: usize = 5;

/// The times of the last requests of each VM.
#[derive(Debug, Default)]
pub(crate) struct Limits(HashMap<String, VecDeque<Timestamp>>);

impl Limits {
    /// Counts a request. Returns whether it exceeds the limit.
    fn exceeded(&mut self, machine: &str, now: Timestamp) -> bool {
        let recent = self.0.entry(machine.to_owned()).or_default();
        while recent.front().is_some_and(|first| now.duration_since(*first) >= SignedDuration::from_secs(1)) {
            recent.pop_front();
        }
        if recent.len() >= REQUESTS_PER_SECOND {
            return true;
        }
        recent.push_back(now);
        false
    }
}

/// An error response of the metadata service.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    /// The OAuth error code that the identity endpoints add.
    word: &'static str,
    message: String,
    /// The supported versions, if the error is about the version.
    versions: Option<&'static [&'static str]>,
}

impl Refusal {
    fn new(status: StatusCode, word: &'static str, message: impl Into<String>) -> Self {
        Self { status, word, message: message.into(), versions: None }
    }

    fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    fn respond(&self, oauth: bool) -> Response<Bytes> {
        let mut body = if oauth {
            json!({"error": self.word, "error_description": self.message})
        } else {
            json!({"error": self.message})
        };
        if let (Some(versions), false) = (self.versions, oauth) {
            body["newest-versions"] = json!(versions.iter().rev().take(3).collect::<Vec<_>>());
        }
        let mut response = document(&body);
        *response.status_mut() = self.status;
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            }
            _ => {}
        }
        response
    }
}

fn document(body: &Value) -> Response<Bytes> {
    with_type(body.to_string(), "application/json; charset=utf-8")
}

fn with_type(body: String, kind: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Answers a request to the metadata service.
pub(crate) fn answer(state: &mut State, peer: Option<IpAddr>, request: &Request<Bytes>) -> Response<Bytes> {
    let caller = match identify(&state.world, peer, request.uri().path()) {
        Ok(caller) => caller,
        Err(message) => return Refusal::not_found(message).respond(false),
    };
    if let Some(result) = control::answer(state, &caller, request) {
        return result.unwrap_or_else(|refusal| refusal.respond(false));
    }
    let oauth = caller.path.starts_with("/metadata/identity/");
    serve(state, &caller, request).unwrap_or_else(|refusal| refusal.respond(oauth))
}

fn serve(state: &mut State, caller: &Caller, request: &Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    match state.faults.hit_imds(&caller.path) {
        Some(Fault::ImdsGone) => {
            return Err(Refusal::new(
                StatusCode::GONE,
                "service_unavailable",
                "The metadata service is being updated.",
            ));
        }
        Some(Fault::ImdsThrottled) => return Err(too_many()),
        _ => {}
    }
    if state.world.spec.throttling == Some(true) && state.imds.exceeded(&caller.key, state.wall) {
        return Err(too_many());
    }
    let headers = request.headers();
    let path = caller
        .path
        .strip_prefix("/metadata")
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or_default()
        .trim_end_matches('/');
    if headers.contains_key("x-forwarded-for") {
        return Err(Refusal::bad("Bad request. Forwarded requests are not supported."));
    }
    if path == "/versions" {
        require_method(request, &[Method::GET])?;
        return Ok(document(&json!({"apiVersions": version::INSTANCE})));
    }
    if !headers.get("metadata").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true")) {
        return Err(Refusal::bad("Bad request. Required metadata header not specified"));
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    match path {
        "/identity/oauth2/token" => {
            require_method(request, &[Method::GET])?;
            version::check(&query, version::IDENTITY)?;
            identity::token(state, caller, &query)
        }
        "/identity/info" => {
            require_method(request, &[Method::GET])?;
            version::check(&query, version::IDENTITY)?;
            Ok(document(&json!({"tenantId": state.world.spec.tenant_id})))
        }
        "/attested/document" => {
            require_method(request, &[Method::GET])?;
            version::check(&query, version::INSTANCE)?;
            Err(Refusal::not_found("Not found. The embedded Azure cannot sign attested documents."))
        }
        "/scheduledevents" => {
            require_method(request, &[Method::GET, Method::POST])?;
            version::check(&query, version::EVENTS)?;
            events::answer(state, caller, request)
        }
        _ => {
            let Some(below) = path.strip_prefix("/instance").filter(|rest| rest.is_empty() || rest.starts_with('/'))
            else {
                return Err(Refusal::not_found("Not found"));
            };
            require_method(request, &[Method::GET])?;
            let version = version::check(&query, version::INSTANCE)?;
            let tree = instance::tree(&state.world, &caller.key, version);
            tree::answer(&tree, below, query.get("format"))
        }
    }
}

fn too_many() -> Refusal {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", "Too many requests")
}

fn require_method(request: &Request<Bytes>, methods: &[Method]) -> Result<(), Refusal> {
    if methods.contains(request.method()) {
        return Ok(());
    }
    let message = format!("Method not allowed: {}", request.method());
    Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message))
}
