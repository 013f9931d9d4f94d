//! Microsoft Entra, as far as clients of ARM need it: discovery, tokens for service principals, and token validation.

mod audience;
mod grant;
mod token;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::arm::error::ArmError;
use crate::sim::State;
use crate::world::roles::Principal;
use crate::world::spec::WorldSpec;

pub(crate) use grant::{Identity, issue};
pub(crate) use token::Key;

pub(crate) use audience::Audience;

/// Answers a request to Entra, or returns `None` if the path belongs to ARM.
pub(crate) fn answer(state: &mut State, request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let path = request.uri().path().to_ascii_lowercase();
    let (tenant, rest) = path.trim_matches('/').split_once('/')?;
    let host = host_of(request);
    let endpoint = match rest.trim_end_matches('/') {
        "discovery/instance" => Endpoint::Instance,
        ".well-known/openid-configuration" => Endpoint::Configuration { v2: false },
        "v2.0/.well-known/openid-configuration" => Endpoint::Configuration { v2: true },
        "discovery/keys" | "discovery/v2.0/keys" => Endpoint::Keys,
        "oauth2/token" => Endpoint::Token { v2: false },
        "oauth2/v2.0/token" => Endpoint::Token { v2: true },
        _ => return None,
    };
    let result = match endpoint {
        Endpoint::Instance => instance(&host, request),
        Endpoint::Keys => Ok(keys(&state.key)),
        Endpoint::Configuration { v2 } => configuration(&state.world.spec, &host, tenant, v2),
        Endpoint::Token { .. } if request.method() != Method::POST => Err(Refusal::request(
            900_561,
            format!("The endpoint only accepts POST requests. Received a {} request.", request.method()),
        )),
        Endpoint::Token { v2 } => grant::token(state, &host, tenant, v2, request.body()),
    };
    let correlation = request.headers().get("client-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    Some(match result {
        Ok(body) => respond(state, StatusCode::OK, &body),
        Err(refusal) => {
            let (trace, own) = (state.ids.uuid(), state.ids.uuid());
            let body = refusal.body(state.wall, &host, &trace, correlation.as_deref().unwrap_or(&own));
            respond(state, refusal.status, &body)
        }
    })
}

enum Endpoint {
    Instance,
    Configuration { v2: bool },
    Keys,
    Token { v2: bool },
}

/// Returns the caller of ARM, from the token of the request.
pub(crate) fn authenticate(state: &State, headers: &HeaderMap) -> Result<Principal, ArmError> {
    let spec = &state.world.spec;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let refuse = |code: &str, message: String, error: &str| {
        let mut refusal = ArmError::new(StatusCode::UNAUTHORIZED, code, message.clone());
        let uri = format!("https://{host}/{}", spec.tenant_id);
        let message = message.replace(['"', '\\'], "'");
        refusal.challenge =
            Some(format!("Bearer authorization_uri=\"{uri}\", error=\"{error}\", error_description=\"{message}\""));
        refusal
    };
    let invalid = |message: &str| refuse("InvalidAuthenticationToken", message.to_owned(), "invalid_token");
    let Some(header) = headers.get(AUTHORIZATION) else {
        let message = "Authentication failed. The 'Authorization' header is missing.";
        return Err(refuse("AuthenticationFailed", message.to_owned(), "invalid_request"));
    };
    let token = header
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else {
        let message = "Authentication failed. The 'Authorization' header is provided in an invalid format.";
        return Err(refuse("AuthenticationFailedInvalidHeader", message.to_owned(), "invalid_request"));
    };
    let claims = state.key.read(token.trim()).ok_or_else(|| invalid("The access token is invalid."))?;
    if !Audience::is_arm(&claims.aud, Some(host)) {
        let message = format!(
            "The access token has been obtained for wrong audience or resource '{}'. It should match one of 'https://{host}', {}.",
            claims.aud,
            audience::PUBLIC.map(|known| format!("'{known}'")).join(", ")
        );
        return Err(refuse("InvalidAuthenticationTokenAudience", message, "invalid_token"));
    }
    if claims.exp <= state.wall.as_second() || claims.issued() < state.tokens_from {
        let told = Timestamp::from_second(claims.exp).unwrap_or(state.wall);
        let ends = if claims.issued() < state.tokens_from { told.min(state.tokens_from) } else { told };
        return Err(refuse("ExpiredAuthenticationToken", expiry(ends, state.wall), "invalid_token"));
    }
    principal(spec, &claims.appid)
        .filter(|_| claims.tid.eq_ignore_ascii_case(&spec.tenant_id))
        .ok_or_else(|| invalid("The access token is of a principal that does not exist."))
}

/// The error of an expired token.
pub(crate) fn expired(state: &State, base: &str) -> ArmError {
    let message = expiry(state.tokens_from, state.wall);
    let mut error = ArmError::new(StatusCode::UNAUTHORIZED, "ExpiredAuthenticationToken", message.clone());
    error.challenge = Some(format!(
        "Bearer authorization_uri=\"{base}/{}\", error=\"invalid_token\", error_description=\"{message}\"",
        state.world.spec.tenant_id
    ));
    error
}

fn expiry(ends: Timestamp, now: Timestamp) -> String {
    format!("The access token expiry UTC time '{}' is earlier than current UTC time '{}'.", instant(ends), instant(now))
}

/// Times in Entra's messages have no fraction.
fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The principal with this application id, and its roles from the world file.
fn principal(spec: &WorldSpec, app: &str) -> Option<Principal> {
    let made = |client_id: &str, object_id: &str, actions: &[String], not_actions: &[String]| Principal {
        client_id: client_id.to_owned(),
        object_id: object_id.to_owned(),
        tenant: spec.tenant_id.clone(),
        actions: actions.to_vec(),
        not_actions: not_actions.to_vec(),
    };
    if let Some(client) = spec.clients.iter().find(|client| client.client_id.eq_ignore_ascii_case(app)) {
        return Some(made(&client.client_id, &client.object_id, &client.actions, &client.not_actions));
    }
    let identity = &spec.identity;
    identity
        .client_id
        .eq_ignore_ascii_case(app)
        .then(|| made(&identity.client_id, &identity.object_id, &identity.actions, &identity.not_actions))
}

/// An Entra error: OAuth error code, AADSTS number and message.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: &'static str,
    pub(crate) code: u32,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn request(code: u32, message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: "invalid_request", code, message }
    }

    fn body(&self, wall: Timestamp, host: &str, trace: &str, correlation: &str) -> Value {
        let (at, code) = (instant(wall), self.code);
        json!({
            "error": self.error,
            "error_description": format!("AADSTS{code}: {} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {at}", self.message),
            "error_codes": [code],
            "timestamp": at,
            "trace_id": trace,
            "correlation_id": correlation,
            "error_uri": format!("https://{host}/error?code={code}"),
        })
    }
}

fn respond(state: &mut State, status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-cache"));
    if let Ok(id) = state.ids.uuid().parse() {
        headers.insert("x-ms-request-id", id);
    }
    response
}

/// The host of a request.
fn host_of(request: &Request<Bytes>) -> String {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    header.or_else(|| request.uri().authority().map(ToString::to_string)).unwrap_or_else(|| "localhost".to_owned())
}

/// Whether the tenant exists: the own one, or that of a foreign subscription.
fn knows_tenant(spec: &WorldSpec, tenant: &str) -> bool {
    spec.tenant_id.eq_ignore_ascii_case(tenant)
        || spec.foreign_subscriptions.iter().any(|foreign| foreign.tenant_id.eq_ignore_ascii_case(tenant))
}

fn unknown_tenant(tenant: &str) -> Refusal {
    Refusal::request(
        90_002,
        format!(
            "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud."
        ),
    )
}

/// Instance discovery: clients query it for authorities that they do not know.
fn instance(host: &str, request: &Request<Bytes>) -> Result<Value, Refusal> {
    let query = crate::arm::call::Query::parse(request.uri().query().unwrap_or_default());
    let missing =
        |name: &str| Refusal::request(900_144, format!("The request must contain the following parameter: '{name}'."));
    query.get("api-version").ok_or_else(|| missing("api-version"))?;
    let endpoint = query.get("authorization_endpoint").ok_or_else(|| missing("authorization_endpoint"))?;
    let asked: Option<http::Uri> = endpoint.parse().ok();
    let tenant = asked.as_ref().and_then(|uri| uri.path().split('/').nth(1)).filter(|tenant| !tenant.is_empty());
    let (Some(asked), Some(tenant)) = (asked.as_ref().and_then(|uri| uri.host()), tenant) else {
        return Err(Refusal::request(50_049, "Unknown or invalid instance.".to_owned()));
    };
    // Clients omit the port here, so only the host is compared.
    let own = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let same = asked.eq_ignore_ascii_case(own) || (audience::is_loopback(asked) && audience::is_loopback(own));
    if !same {
        return Err(Refusal::request(50_049, "Unknown or invalid instance.".to_owned()));
    }
    Ok(json!({
        "tenant_discovery_endpoint": format!("https://{host}/{tenant}/v2.0/.well-known/openid-configuration"),
        "api-version": "1.1",
        "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
    }))
}

fn configuration(spec: &WorldSpec, host: &str, tenant: &str, v2: bool) -> Result<Value, Refusal> {
    // `common` and `organizations`: clients substitute the tenant id themselves.
    let any = matches!(tenant, "common" | "organizations" | "consumers");
    if !any && !knows_tenant(spec, tenant) {
        return Err(unknown_tenant(tenant));
    }
    let base = format!("https://{host}/{tenant}");
    let shown = if any { "{tenantid}" } else { tenant };
    let (oauth, keys, issuer) = if v2 {
        ("oauth2/v2.0", "discovery/v2.0/keys", format!("https://{host}/{shown}/v2.0"))
    } else {
        ("oauth2", "discovery/keys", token::issuer(shown))
    };
    Ok(json!({
        "token_endpoint": format!("{base}/{oauth}/token"),
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
        "jwks_uri": format!("{base}/{keys}"),
        "response_modes_supported": ["query", "fragment", "form_post"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": [token::ALGORITHM],
        "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "issuer": issuer,
        "request_uri_parameter_supported": false,
        "authorization_endpoint": format!("{base}/{oauth}/authorize"),
        "device_authorization_endpoint": format!("{base}/{oauth}/devicecode"),
        "http_logout_supported": true,
        "frontchannel_logout_supported": true,
        "end_session_endpoint": format!("{base}/{oauth}/logout"),
        "claims_supported": ["sub", "iss", "aud", "exp", "iat", "nbf", "appid", "oid", "tid", "ver"],
        "tenant_region_scope": null,
        "cloud_instance_name": host,
        "cloud_graph_host_name": host,
        "msgraph_host": host,
    }))
}

fn keys(key: &Key) -> Value {
    json!({"keys": [{
        "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": token::ALGORITHM, "kid": key.id(), "x": URL_SAFE_NO_PAD.encode(key.public()),
    }]})
}
