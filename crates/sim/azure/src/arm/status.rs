//! Polling of a long-running operation: by status URL, by `Location`, or by the state of the resource.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use kiln_sim_store::Ids;
use serde_json::{Value, json};

use super::call::{Answer, Call, HandlerResult};
use super::error::ArmError;
use super::route;
use crate::arm::kind::ResourceKind;
use crate::sim::State;
use crate::world::operation::Operation;
use crate::world::resource::time_text;

/// The longest `Retry-After`, in real seconds, comparable to Azure's for long operations.
const LONGEST_WAIT: f64 = 30.0;

/// The lengths of the status URLs that the real Azure was seen to send, in characters.
const URL_LENGTH: std::ops::RangeInclusive<usize> = 3_045..=3_288;

/// The length of the parameter `c`, a certificate in base64, where the length of the URL allows it.
const CERTIFICATE: usize = 2_575;

/// The URLs for `Azure-AsyncOperation` and `Location`. Azure signs them, which makes them about 3 KB long. Their parameters follow from
/// the operation, so they are not stored, and reading an operation needs only its id.
pub(super) fn urls(call: &Call, operation: &Operation) -> [String; 2] {
    let kind = operation.target.kind;
    let status = format!(
        "{}/subscriptions/{}/providers/{}/locations/{}/{}/{}",
        call.base,
        operation.target.subscription,
        kind.namespace(),
        operation.location,
        kind.operations(),
        operation.id
    );
    let partition = match kind.operations() {
        "capsOperations" => String::new(),
        list => format!("p={}&", Ids::from_name(&format!("{list} {}", operation.location)).uuid()),
    };
    let version = call.api_version();
    ["", "monitor=true&"].map(|monitor| {
        let start = format!("{status}?{partition}{monitor}api-version={version}&t={}&c=", ticks(operation.started));
        let (signature, hash) = (padding(&operation.id, "s", 342), padding(&operation.id, "h", 43));
        let end = format!("&s={signature}&h={hash}");
        let rest = start.len() + end.len();
        let length = (rest + CERTIFICATE).clamp(*URL_LENGTH.start(), *URL_LENGTH.end()).saturating_sub(rest);
        format!("{start}{}{end}", padding(&operation.id, "c", length))
    })
}

/// Text of this length in the alphabet of base64 URLs that always follows from the operation.
fn padding(operation: &str, parameter: &str, length: usize) -> String {
    let mut ids = Ids::from_name(&format!("{operation} {parameter}"));
    let bytes: Vec<u8> = (0..=length / 8).flat_map(|_| ids.number().to_le_bytes()).collect();
    let mut text = URL_SAFE_NO_PAD.encode(bytes);
    text.truncate(length);
    text
}

/// A time in units of 100 ns since the year 1, which has 18 digits.
fn ticks(time: Timestamp) -> i64 {
    const UNIX_EPOCH: i64 = 621_355_968_000_000_000;
    UNIX_EPOCH + time.as_microsecond() * 10
}

/// The seconds until the next poll makes sense.
pub(super) fn retry_after(state: &State, operation: &Operation) -> u64 {
    let left = state.clock.real_seconds(operation.ends.duration_since(state.world.now));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and LONGEST_WAIT")]
    let seconds = left.clamp(0.0, LONGEST_WAIT).ceil() as u64;
    seconds
}

/// Answers a read of either URL.
pub(super) fn read(state: &State, call: &Call, subscription: &str, id: &str) -> HandlerResult {
    let operation = state
        .world
        .operations
        .get(&id.to_ascii_lowercase())
        .filter(|operation| operation.target.subscription.eq_ignore_ascii_case(subscription))
        .ok_or_else(|| ArmError::missing("OperationNotFound", format!("The operation '{id}' could not be found.")))?;
    if call.query.get("monitor").is_some() {
        return monitor(state, call, operation);
    }
    let mut body = json!({"name": operation.id, "startTime": time_text(operation.started)});
    let status = match &operation.outcome {
        None => "InProgress",
        Some(Ok(())) => {
            if let Some(output) = output(state, call, operation) {
                body["properties"] = json!({"output": output});
            }
            "Succeeded"
        }
        Some(Err(error)) => {
            body["error"] = error.json();
            "Failed"
        }
    };
    body["status"] = json!(status);
    let answer = if operation.outcome.is_some() {
        body["endTime"] = json!(time_text(operation.ends));
        Answer::ok(body)
    } else {
        // The headers tell the client where and when to poll again.
        Answer::ok(body).started(operation.id.clone())
    };
    Ok(answer)
}

fn monitor(state: &State, call: &Call, operation: &Operation) -> HandlerResult {
    match &operation.outcome {
        None => Ok(Answer::empty(202).started(operation.id.clone())),
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(())) => Ok(match (&operation.output, state.world.resources.get(&operation.target.key())) {
            (Some(output), _) => Answer::ok(output.clone()),
            (None, Some(resource)) if operation.returns_resource => route::view(&state.world, resource, call),
            // The end of an action has no content, but is not a 204.
            (None, Some(_)) => Answer::empty(200),
            (None, None) => Answer::empty(204),
        }),
    }
}

/// The result in the status of a finished operation: what an action returned, or the disk or snapshot.
fn output(state: &State, call: &Call, operation: &Operation) -> Option<Value> {
    let resource = || {
        let shown = matches!(operation.target.kind, ResourceKind::Disk | ResourceKind::Snapshot);
        let resource =
            state.world.resources.get(&operation.target.key()).filter(|_| shown && operation.returns_resource);
        let mut body = route::view(&state.world, resource?, call).body?;
        // A copy in the background has made no progress when its operation ends.
        if body["properties"]["creationData"]["createOption"] == json!("CopyStart")
            && let Some(properties) = body["properties"].as_object_mut()
        {
            properties.remove("completionPercent");
        }
        Some(body)
    };
    operation.output.clone().or_else(resource)
}
