//! Scheduled events: what the platform is going to do to a machine, and the machine's consent to have it done now.

use bytes::Bytes;
use http::{Method, Request, Response};
use serde::Deserialize;
use serde_json::json;

use super::{Caller, Refusal, document};
use crate::sim::State;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Consent {
    start_requests: Vec<Start>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Start {
    event_id: String,
}

pub(super) fn answer(state: &mut State, caller: &Caller, request: &Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    let events =
        state.world.resources.get(&caller.key).and_then(|resource| resource.vm.as_ref()).map(|vm| vm.events.clone());
    let events = events.ok_or_else(|| Refusal::not_found("Not found"))?;
    if request.method() == Method::GET {
        return Ok(document(&json!({"DocumentIncarnation": events.incarnation, "Events": events.list})));
    }
    let consent: Consent = serde_json::from_slice(request.body()).map_err(|error| {
        Refusal::bad(format!("Bad request. The body must be {{\"StartRequests\": [{{\"EventId\": …}}]}}: {error}"))
    })?;
    let known = |start: &Start| events.list.iter().any(|event| event["EventId"] == start.event_id);
    if let Some(unknown) = consent.start_requests.iter().find(|start| !known(start)) {
        return Err(Refusal::bad(format!("Bad request. There is no event with the EventId '{}'", unknown.event_id)));
    }
    let starts = |event: &serde_json::Value| {
        event["EventStatus"] != "Started"
            && consent.start_requests.iter().any(|start| event["EventId"] == start.event_id)
    };
    if events.list.iter().any(starts)
        && let Some(vm) = state.world.resources.get_mut(&caller.key).and_then(|resource| resource.vm.as_mut())
    {
        vm.events.incarnation += 1;
        for event in vm.events.list.iter_mut().filter(|event| starts(event)) {
            event["EventStatus"] = json!("Started");
            event["NotBefore"] = json!("");
        }
    }
    Ok(Response::new(Bytes::new()))
}
