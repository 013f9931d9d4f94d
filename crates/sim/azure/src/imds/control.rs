//! Control requests that Azure does not have, below `/vm/NAME/kiln/`: `GET health` returns the last report of the guest to the wire server;
//! `POST events` with `{"EventType": "Preempt"}` schedules an event, and `DELETE events` ends all events.

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

/// Answers a control request, or returns `None` if the path is not below `/kiln/`. Only callers with a prefix have access, so that a guest
/// cannot control itself.
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
            "unknown EventType `{}`; expected Freeze, Reboot, Redeploy, Preempt or Terminate",
            planned.event_type
        ))
    })?;
    Ok(document(&event))
}
