//! The token endpoint: client credentials with a secret or with the assertion of a workload identity.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::audience::Audience;
use super::token::{Claims, issuer};
use super::{Refusal, knows_tenant, unknown_tenant};
use crate::arm::call::Query;
use crate::sim::State;

const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The subject of a token.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) client_id: String,
    pub(crate) object_id: String,
    /// Authenticated by a secret, not by an assertion or the platform.
    pub(crate) by_secret: bool,
    /// The resource of a managed identity, and the VM that requested the token.
    pub(crate) managed: Option<[String; 2]>,
}

/// Issues a token. Returns it with the start and end of its validity.
pub(crate) fn issue(state: &mut State, identity: &Identity, audience: &Audience) -> (String, i64, i64) {
    let spec = state.world.spec.clone();
    let (begins, lifetime) = (state.wall.as_second(), i64::from(spec.token_lifetime));
    let ends = begins + lifetime;
    let [mirid, rid] = identity.managed.clone().map_or([None, None], |ids| ids.map(Some));
    let claims = Claims {
        aud: audience.as_str().to_owned(),
        iss: issuer(&spec.tenant_id),
        iat: begins,
        nbf: begins,
        exp: ends,
        appid: identity.client_id.clone(),
        appidacr: if identity.by_secret { "1" } else { "2" }.to_owned(),
        idp: issuer(&spec.tenant_id),
        idtyp: "app".to_owned(),
        oid: identity.object_id.clone(),
        sub: identity.object_id.clone(),
        tid: spec.tenant_id.clone(),
        uti: state.ids.uuid().replace('-', ""),
        ver: "1.0".to_owned(),
        xms_mirid: mirid,
        xms_az_rid: rid,
        kiln_iat_ns: state.wall.subsec_nanosecond(),
    };
    (state.key.sign(&claims), begins, ends)
}

pub(super) fn token(state: &mut State, host: &str, tenant: &str, v2: bool, body: &Bytes) -> Result<Value, Refusal> {
    let spec = state.world.spec.clone();
    if !knows_tenant(&spec, tenant) {
        return Err(unknown_tenant(tenant));
    }
    let form = Query::parse(&String::from_utf8_lossy(body));
    let need = |name: &str| {
        form.get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            Refusal::request(900_144, format!("The request body must contain the following parameter: '{name}'."))
        })
    };
    let grant = need("grant_type")?;
    if grant != "client_credentials" {
        let message = format!("The app requested an unsupported grant type '{grant}'.");
        return Err(Refusal {
            status: StatusCode::BAD_REQUEST,
            error: "unsupported_grant_type",
            code: 70_003,
            message,
        });
    }
    let app = need("client_id")?;
    let home = spec.tenant_id.eq_ignore_ascii_case(tenant);
    let client =
        spec.clients.iter().find(|client| home && client.client_id.eq_ignore_ascii_case(app)).ok_or_else(|| {
            Refusal {
                status: StatusCode::BAD_REQUEST,
                error: "unauthorized_client",
                code: 700_016,
                message: format!("Application with identifier '{app}' was not found in the directory '{tenant}'."),
            }
        })?;
    let by_secret = authenticate_client(&form, client)?;
    let resource = if v2 { scope(need("scope")?)? } else { need("resource")?.to_owned() };
    let audience = Audience::find(&resource, Some(host)).ok_or_else(|| Refusal {
        status: StatusCode::BAD_REQUEST,
        error: "invalid_resource",
        code: 500_011,
        message: format!("The resource principal named {resource} was not found in the tenant named {tenant}."),
    })?;
    let identity =
        Identity { client_id: client.client_id.clone(), object_id: client.object_id.clone(), by_secret, managed: None };
    let (token, begins, ends) = issue(state, &identity, &audience);
    // The reported lifetime is one second shorter, so that a client's own countdown never outlives the token.
    let life = (ends - begins - 1).max(0);
    Ok(if v2 {
        json!({"token_type": "Bearer", "expires_in": life, "ext_expires_in": life, "access_token": token})
    } else {
        json!({
            "token_type": "Bearer",
            "expires_in": life.to_string(),
            "ext_expires_in": life.to_string(),
            "expires_on": ends.to_string(),
            "not_before": begins.to_string(),
            "resource": resource,
            "access_token": token,
        })
    })
}

/// Authenticates the client. Returns whether it used a secret.
fn authenticate_client(form: &Query, client: &crate::world::spec::Client) -> Result<bool, Refusal> {
    let refuse =
        |code, message: String| Refusal { status: StatusCode::UNAUTHORIZED, error: "invalid_client", code, message };
    if let Some(assertion) = form.get("client_assertion") {
        if form.get("client_assertion_type") != Some(JWT_BEARER) {
            let message = format!(
                "The request body must contain the parameter 'client_assertion_type' with the value '{JWT_BEARER}'."
            );
            return Err(Refusal::request(900_144, message));
        }
        if client.federated_tokens.iter().any(|known| known == assertion) {
            return Ok(false);
        }
        return Err(refuse(70_021, "No matching federated identity record found for presented assertion.".to_owned()));
    }
    match form.get("client_secret") {
        None | Some("") => Err(refuse(
            7_000_216,
            "'client_assertion', 'client_secret' or 'request' is required for the 'client_credentials' grant type."
                .to_owned(),
        )),
        Some(secret) if secret == client.client_secret => Ok(true),
        Some(_) => Err(refuse(
            7_000_215,
            format!(
                "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '{}'.",
                client.client_id
            ),
        )),
    }
}

/// The resource of a scope. Client credentials request one resource with `/.default`.
fn scope(text: &str) -> Result<String, Refusal> {
    let mut scopes =
        text.split(' ').filter(|scope| !scope.is_empty() && !matches!(*scope, "openid" | "profile" | "offline_access"));
    match (scopes.next().and_then(|scope| scope.strip_suffix("/.default")), scopes.next()) {
        (Some(resource), None) if !resource.is_empty() => Ok(resource.to_owned()),
        _ => Err(Refusal {
            status: StatusCode::BAD_REQUEST,
            error: "invalid_scope",
            code: 70_011,
            message: format!(
                "The provided value for the input parameter 'scope' is not valid. The scope {text} is not valid."
            ),
        }),
    }
}
