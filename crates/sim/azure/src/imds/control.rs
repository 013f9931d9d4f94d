//! What Azure does not have: a person's hand on a machine of the world, below `/vm/NAME/kiln/`.
//!
//! - `GET health`: what the guest last told the wire server.
//! - `POST events` with `{"EventType": "Preempt"}`: the platform plans something. `DELETE events`: it is over.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::{Caller, Refusal, document, events};
use crate::sim::State;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Planned {
    event_type: String,
}

/// `None` when the path is not below `/kiln/`. A machine itself has no hand on itself: only a prefix opens this door.
pub(super) fn answer(
    state: &mut State,
    caller: &Caller,
    request: &Request<Bytes>,
) -> Option<Result<Response<Bytes>, Refusal>> {
    let below = caller.path.strip_prefix("/kiln/").filter(|_| !caller.prefix.is_empty())?;
    Some(match (request.method(), below) {
        (&Method::GET, "health") => {
            let vm = state.world.resources.get(&caller.key).and_then(|resource| resource.vm.as_ref());
            Ok(document(&vm.and_then(|vm| vm.health.clone()).unwrap_or(Value::Null)))
        }
        (&Method::POST, "events") => plan(state, caller, request),
        (&Method::DELETE, "events") => events::end(state, caller).map(|()| Response::new(Bytes::new())),
        (_, "health" | "events") => {
            let message = format!("Method not allowed: {}", request.method());
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message))
        }
        _ => Err(Refusal::not_found("Not found")),
    })
}

fn plan(state: &mut State, caller: &Caller, request: &Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    let planned: Planned = serde_json::from_slice(request.body())
        .map_err(|error| Refusal::bad(format!("the body must be {{\"EventType\": …}}: {error}")))?;
    let event = events::plan(state, caller, &planned.event_type)?.ok_or_else(|| {
        Refusal::bad(format!(
            "EventType `{}` is none of Freeze, Reboot, Redeploy, Preempt, Terminate",
            planned.event_type
        ))
    })?;
    Ok(document(&event))
}
