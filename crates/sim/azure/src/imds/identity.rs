//! Tokens for managed identities.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::{Caller, Refusal, document};
use crate::arm::call::Query;
use crate::arm::kind::ResourceKind;
use crate::entra::{self, Audience};
use crate::sim::State;

pub(super) fn token(state: &mut State, caller: &Caller, query: &Query) -> Result<Response<Bytes>, Refusal> {
    let resource = query.get("resource").filter(|resource| !resource.is_empty());
    let resource = resource.ok_or_else(|| Refusal::bad("Required query variable 'resource' is missing"))?;
    if query.get("bypass_cache").is_some_and(|value| !value.eq_ignore_ascii_case("true")) {
        return Err(Refusal::bad("The query variable 'bypass_cache' must be 'true'"));
    }
    let asked: Vec<(&str, &str)> = ["client_id", "object_id", "msi_res_id", "mi_res_id"]
        .into_iter()
        .filter_map(|name| Some((name, query.get(name)?)))
        .collect();
    if asked.len() > 1 {
        return Err(Refusal::bad(
            "The query variables 'client_id', 'object_id' and 'msi_res_id' are mutually exclusive",
        ));
    }
    let spec = state.world.spec.clone();
    let machine = state.world.resources.get(&caller.key).map(|resource| resource.id.clone());
    let machine = machine.ok_or_else(|| Refusal::not_found("Identity not found"))?;
    // A system-assigned identity belongs to the scale set, not to the instance.
    let owner = match machine.kind {
        ResourceKind::Instance => machine.parent().unwrap_or_else(|| machine.clone()),
        _ => machine.clone(),
    };
    let mut owner = owner.to_string();
    if let Some((name, value)) = asked.first() {
        let fits = match *name {
            "client_id" => value.eq_ignore_ascii_case(&spec.identity.client_id),
            "object_id" => value.eq_ignore_ascii_case(&spec.identity.object_id),
            _ => {
                let fits = value.eq_ignore_ascii_case(&owner) || assigned(state, caller, value);
                (*value).clone_into(&mut owner);
                fits
            }
        };
        if !fits {
            return Err(Refusal::bad("Identity not found"));
        }
    }
    let audience = Audience::find(resource, None).ok_or_else(|| {
        let message = format!(
            "AADSTS500011: The resource principal named {resource} was not found in the tenant named {}.",
            spec.tenant_id
        );
        // Azure returns `invalid_resource`, which is not in the specification's list of codes.
        Refusal::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    })?;
    let identity = entra::Identity {
        client_id: spec.identity.client_id.clone(),
        object_id: spec.identity.object_id.clone(),
        by_secret: false,
        managed: Some([owner.clone(), machine.to_string()]),
    };
    let (token, begins, ends) = entra::issue(state, &identity, &audience);
    let life = (ends - begins - 1).max(0).to_string();
    let mut body = json!({
        "access_token": token,
        "client_id": identity.client_id,
        "expires_in": life,
        "expires_on": ends.to_string(),
        "ext_expires_in": life,
        "not_before": begins.to_string(),
        "resource": resource,
        "token_type": "Bearer",
    });
    match asked.first() {
        Some(("object_id", _)) => body["object_id"] = json!(identity.object_id),
        Some(("msi_res_id" | "mi_res_id", _)) => body["msi_res_id"] = json!(owner),
        _ => {}
    }
    Ok(document(&body))
}

/// Whether the VM or its scale set has this user-assigned identity.
fn assigned(state: &State, caller: &Caller, id: &str) -> bool {
    let world = &state.world;
    let own = world.resources.get(&caller.key);
    let set = own.and_then(|resource| resource.id.parent()).and_then(|set| world.resources.get(&set.key()));
    own.into_iter().chain(set).any(|resource| {
        let list = resource.at("identity.userAssignedIdentities").and_then(serde_json::Value::as_object);
        list.is_some_and(|list| list.keys().any(|known| known.eq_ignore_ascii_case(id)))
    })
}
