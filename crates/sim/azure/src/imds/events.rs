//! Scheduled events: planned maintenance of a VM, and the guest's approval to start it early.

use bytes::Bytes;
use http::{Method, Request, Response};
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Caller, Refusal, document};
use crate::sim::State;
use crate::world::vm::{Events, Vm};

/// The kinds of event, with Azure's minimum notice in seconds.
const NOTICE: [(&str, i64); 5] =
    [("Freeze", 900), ("Reboot", 900), ("Redeploy", 600), ("Preempt", 30), ("Terminate", 300)];

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

/// Answers `/metadata/scheduledevents`.
pub(super) fn answer(state: &mut State, caller: &Caller, request: &Request<Bytes>) -> Result<Response<Bytes>, Refusal> {
    let now = state.world.now;
    let events = &vm(state, caller)?.events;
    if events.list.iter().any(|event| is_due(event, now)) {
        start(&mut vm_mut(state, caller)?.events, |event| is_due(event, now));
    }
    let events = &vm(state, caller)?.events;
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
    let meant = |event: &Value| {
        is_scheduled(event) && consent.start_requests.iter().any(|start| event["EventId"] == start.event_id)
    };
    if events.list.iter().any(meant) {
        start(&mut vm_mut(state, caller)?.events, meant);
    }
    Ok(Response::new(Bytes::new()))
}

/// Schedules an event with Azure's notice. Returns `None` for an unknown kind.
pub(super) fn plan(state: &mut State, caller: &Caller, kind: &str) -> Result<Option<Value>, Refusal> {
    let Some((kind, notice)) = NOTICE.into_iter().find(|(known, _)| *known == kind) else { return Ok(None) };
    let at = state.world.now + SignedDuration::from_secs(notice);
    let not_before = DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default();
    let id = state.world.meta.ids.uuid().to_uppercase();
    let vm = vm_mut(state, caller)?;
    let event = json!({
        "EventId": id,
        "EventStatus": "Scheduled",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": [vm.name],
        "NotBefore": not_before,
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": if kind == "Freeze" { 5 } else { -1 },
    });
    vm.events.list.push(event.clone());
    vm.events.incarnation += 1;
    Ok(Some(event))
}

/// Ends all events of the VM.
pub(super) fn end(state: &mut State, caller: &Caller) -> Result<(), Refusal> {
    if !vm(state, caller)?.events.list.is_empty() {
        let events = &mut vm_mut(state, caller)?.events;
        events.list.clear();
        events.incarnation += 1;
    }
    Ok(())
}

fn vm<'a>(state: &'a State, caller: &Caller) -> Result<&'a Vm, Refusal> {
    let vm = state.world.resources.get(&caller.key).and_then(|resource| resource.vm.as_ref());
    vm.ok_or_else(|| Refusal::not_found("Not found"))
}

fn vm_mut<'a>(state: &'a mut State, caller: &Caller) -> Result<&'a mut Vm, Refusal> {
    let vm = state.world.resources.get_mut(&caller.key).and_then(|resource| resource.vm.as_mut());
    vm.ok_or_else(|| Refusal::not_found("Not found"))
}

fn is_scheduled(event: &Value) -> bool {
    event["EventStatus"] == "Scheduled"
}

/// The notice has passed, so the event starts even without approval.
fn is_due(event: &Value, now: Timestamp) -> bool {
    let at = event["NotBefore"].as_str().and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
    is_scheduled(event) && at.is_some_and(|at| at <= now)
}

fn start(events: &mut Events, which: impl Fn(&Value) -> bool) {
    events.incarnation += 1;
    for event in events.list.iter_mut().filter(|event| which(event)) {
        event["EventStatus"] = json!("Started");
        event["NotBefore"] = json!("");
    }
}
