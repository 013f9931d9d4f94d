//! Azure Resource Manager: parses a request, checks it, runs the handler and builds the response.

mod api_version;
pub(crate) mod call;
pub(crate) mod error;
mod families;
pub(crate) mod guardrails;
pub(crate) mod id;
pub(crate) mod kind;
pub(crate) mod permission;
mod resources;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod throttle;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HOST, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::faults::{FaultKind as Fault, RequestSummary};
use crate::sim::{Reply, State};
use crate::world::operation::PlannedOutcome;
use crate::world::roles::Principal;
use call::{Answer, Call, HandlerResult, Query};
use error::ArmError;
use id::Target;
use kind::ResourceKind;

/// The header with the families that a request counts in.
const REMAINING: &str = "x-ms-ratelimit-remaining-resource";

/// Answers a request to ARM. The order of the checks decides which error a client sees first.
pub(crate) fn answer(state: &mut State, request: Request<Bytes>) -> Reply {
    let request_id = state.ids.uuid();
    let client_id = request.headers().get("x-ms-client-request-id").cloned();
    let correlation =
        request.headers().get("x-ms-correlation-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = value.parse() {
            headers.append(name, value);
        }
    };
    set("x-ms-request-id", &request_id);
    set("x-ms-correlation-request-id", correlation.as_deref().unwrap_or(&request_id));
    set(
        "x-ms-routing-request-id",
        &format!("{}:{}:{request_id}", state.world.spec.location.to_uppercase(), state.world.now),
    );
    set("cache-control", "no-cache");
    if let Some(id) = client_id {
        headers.insert("x-ms-client-request-id", id);
    }

    let mut call = Call::default();
    let mut reset = false;
    let result = prepare(state, request, &mut call).and_then(|target| {
        let matter = RequestSummary::from_call(&call, &target);
        let fault = state.faults.hit(&matter);
        let families = families::of(&call, &target, is_flexible(state, &call, &target));
        state.throttle.headers(&call, families, state.wall, &mut headers)?;
        if fault == Some(Fault::ResetAfterProcessing) {
            reset = true;
        }
        handle(state, &call, &target, fault)
    });
    if reset {
        return Reply::Reset;
    }
    Reply::Answer(match result {
        Ok(answer) => {
            if is_empty_group_list(&call, &answer) {
                headers.remove(REMAINING);
            }
            respond(state, &call, &answer, headers)
        }
        Err(error) => {
            // ARM answers a read of something missing without asking Compute.
            if call.method == http::Method::GET {
                headers.remove(REMAINING);
            }
            refuse(&error, headers)
        }
    })
}

/// Whether the answer lists a type of which the group has no resource. ARM knows that without asking Compute.
fn is_empty_group_list(call: &Call, answer: &Answer) -> bool {
    let is_top_level = call.path.rsplit('/').nth(2).is_some_and(|part| part.eq_ignore_ascii_case("providers"));
    let list = answer.body.as_ref().and_then(|body| body.get("value")).and_then(Value::as_array);
    is_top_level && list.is_some_and(Vec::is_empty)
}

/// Whether the request is about a flexible scale set.
fn is_flexible(state: &State, call: &Call, target: &Target) -> bool {
    const MODE: &str = "properties.orchestrationMode";
    let Target::Resource(id) = target else { return false };
    let stored = state.world.resources.get(&id.key()).and_then(|set| set.at(MODE));
    id.kind == ResourceKind::ScaleSet && stored.or_else(|| call.field(MODE)) == Some(&json!("Flexible"))
}

/// Performs the checks of ARM itself: authentication, path, API version and permission.
fn prepare(state: &mut State, request: Request<Bytes>, call: &mut Call) -> Result<Target, ArmError> {
    let (parts, body) = request.into_parts();
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let header =
        |name| parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).map(str::to_owned);
    call.method = parts.method;
    call.base = format!("https://{host}");
    parts.uri.path().clone_into(&mut call.path);
    call.query = Query::parse(parts.uri.query().unwrap_or_default());
    call.if_match = header(IF_MATCH);
    call.if_none_match = header(IF_NONE_MATCH);

    if call.path.trim_end_matches('/').eq_ignore_ascii_case("/metadata/endpoints") {
        return Ok(Target::Endpoints);
    }
    call.caller = crate::entra::authenticate(state, &parts.headers)?;
    let target = Target::parse(&call::decode_path(&call.path)).ok_or_else(|| {
        ArmError::missing(
            "InvalidResourceType",
            format!("The path '{}' does not name a known resource type.", call.path),
        )
    })?;
    api_version::check(state, call, &target)?;
    route::check_subscription(state, call, &target)?;
    permission::check(state, call, &target)?;
    if !body.is_empty() {
        let value: Value = serde_json::from_slice(&body).map_err(|error| {
            ArmError::bad(
                "InvalidRequestContent",
                format!("The request content was invalid and could not be deserialized: '{error}'."),
            )
        })?;
        let Value::Object(object) = value else {
            return Err(ArmError::bad(
                "InvalidRequestContent",
                "The request content was invalid: a JSON object is expected.",
            ));
        };
        call.body = object;
    }
    Ok(target)
}

/// Runs the handler and applies the planned fault.
fn handle(state: &mut State, call: &Call, target: &Target, fault: Option<Fault>) -> HandlerResult {
    match &fault {
        Some(Fault::ThrottledArm) => return Err(throttle::by_arm(throttled_for(state))),
        Some(Fault::ThrottledCompute) => return Err(throttle::by_compute(throttled_for(state))),
        Some(Fault::StatusUrlMissing) if matches!(target, Target::Operation { .. }) => {
            return Err(ArmError::missing("OperationNotFound", "The operation could not be found."));
        }
        Some(Fault::TokenExpires) => {
            state.tokens_from = state.wall;
            return Err(crate::entra::expired(state, &call.base));
        }
        Some(Fault::StaleRead) => {
            if let Target::Resource(id) = target
                && let Some(previous) =
                    state.world.resources.get(&id.key()).and_then(|resource| resource.previous.clone())
            {
                return Ok(route::view(&state.world, &previous, call));
            }
        }
        _ => {}
    }
    state.world.planned_outcome = fault.as_ref().map_or(PlannedOutcome::Normal, |fault| fault.planned_outcome());
    let before = (fault == Some(Fault::SuccessButNotApplied)).then(|| state.world.clone());
    let handled = guardrails::check(&state.world, call, target).and_then(|()| route::dispatch(state, call, target));
    let fate = std::mem::take(&mut state.world.planned_outcome);
    let answer = handled?;
    if let Some(before) = before {
        state.world.discard_changes(before, answer.operation.as_deref());
        return Ok(answer);
    }
    // The fault was not used up by an operation because the call was answered at once, so the answer itself fails.
    match fate {
        PlannedOutcome::FailsAfterApplying(error) | PlannedOutcome::Fails(error) if answer.operation.is_none() => {
            Err(error)
        }
        _ => Ok(answer),
    }
}

/// The wait of a throttling fault, in real seconds: 30 s of simulated time, between ARM's limits (seconds) and Compute's (minutes).
fn throttled_for(state: &State) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to 3600")]
    let seconds = state.clock.real_seconds(jiff::SignedDuration::from_secs(30)).clamp(1.0, 3_600.0).ceil() as u32;
    seconds
}

fn respond(state: &State, call: &Call, answer: &Answer, mut headers: HeaderMap) -> Response<Bytes> {
    let mut set = |name: http::HeaderName, value: &str| {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    };
    if let Some(etag) = &answer.etag {
        set(ETAG, etag);
    }
    if let Some(operation) = answer.operation.as_ref().and_then(|id| state.world.operations.get(id)) {
        let [status, location] = status::urls(call, operation);
        // A poll does not repeat the URLs, except the 202 of `Location` itself.
        let polls = call.method == http::Method::GET;
        if !polls || answer.status == 202 {
            set(http::HeaderName::from_static("azure-asyncoperation"), &status);
        }
        // Compute sends `Location` only where the answer has no final resource.
        if answer.status == 202 {
            set(LOCATION, &location);
        }
        if !polls && operation.target.kind.notifies() {
            set(http::HeaderName::from_static("azure-asyncnotification"), "Enabled");
        }
        set(RETRY_AFTER, &status::retry_after(state, operation).to_string());
    }
    build(answer.status, answer.body.as_ref(), headers)
}

fn refuse(error: &ArmError, mut headers: HeaderMap) -> Response<Bytes> {
    if let Some(value) = error.retry_after.and_then(|seconds| seconds.to_string().parse().ok()) {
        headers.insert(RETRY_AFTER, value);
    }
    if let Some(value) = error.challenge.as_ref().and_then(|challenge| challenge.parse().ok()) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
    if let Ok(value) = error.code.parse() {
        headers.insert("x-ms-failure-cause", http::HeaderValue::from_static("gateway"));
        headers.insert("x-ms-error-code", value);
    }
    build(error.status, Some(&error.envelope()), headers)
}

fn build(status: u16, body: Option<&Value>, headers: HeaderMap) -> Response<Bytes> {
    let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let mut response = Response::new(bytes);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    if body.is_some() {
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json; charset=utf-8"));
    }
    response
}

impl Default for Call {
    fn default() -> Self {
        Self {
            method: http::Method::GET,
            base: "https://localhost".to_owned(),
            path: String::new(),
            query: Query::default(),
            if_match: None,
            if_none_match: None,
            body: Map::new(),
            caller: Principal::default(),
        }
    }
}

/// `/metadata/endpoints`: the endpoints for registering the cloud in a client.
pub(crate) fn endpoints(call: &Call) -> Answer {
    let base = &call.base;
    Answer::ok(json!({
        "name": "kiln",
        "portal": base,
        "authentication": {"loginEndpoint": base, "audiences": [base], "tenant": "common", "identityProvider": "AAD"},
        "graph": base,
        "graphAudience": base,
        "resourceManager": base,
        "media": base,
        "batch": base,
        "gallery": base,
        "vmImageAliasDoc": base,
        "suffixes": {"storage": "storage.localhost", "keyVaultDns": "vault.localhost", "acrLoginServer": "registry.localhost"},
    }))
}
