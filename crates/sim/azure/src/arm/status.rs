//! Polling of a long-running operation: by status URL, by `Location`, or by the state of the resource.

use serde_json::json;

use super::call::{Answer, Call, HandlerResult};
use super::error::ArmError;
use super::route;
use crate::sim::State;
use crate::world::operation::Operation;

/// The longest `Retry-After`, in real seconds, comparable to Azure's for long operations.
const LONGEST_WAIT: f64 = 30.0;

/// The URLs for `Azure-AsyncOperation` and `Location`.
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
    [
        format!("{status}?api-version={}", call.api_version()),
        format!("{status}?monitor=true&api-version={}", call.api_version()),
    ]
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
    let mut body = json!({"name": operation.id, "startTime": operation.started.to_string()});
    let status = match &operation.outcome {
        None => "InProgress",
        Some(Ok(())) => "Succeeded",
        Some(Err(error)) => {
            body["error"] = error.json();
            "Failed"
        }
    };
    body["status"] = json!(status);
    let answer = if operation.outcome.is_some() {
        body["endTime"] = json!(operation.ends.to_string());
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
        Some(Ok(())) => match state.world.resources.get(&operation.target.key()) {
            Some(resource) if operation.returns_resource => Ok(route::view(&state.world, resource, call)),
            // The end of an action has no content, but is not a 204.
            Some(_) => Ok(Answer::empty(200)),
            None => Ok(Answer::empty(204)),
        },
    }
}
