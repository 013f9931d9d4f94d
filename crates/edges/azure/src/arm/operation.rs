//! Long-running operations. A handle is stored in the journal before the operation is awaited, so that another process can resume polling.

use std::time::Duration;

use kiln_types::{ErrorClass, Failure, OperationHandle, OperationState, Progress, Provisioning};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::api::Api;
use super::call::Call;
use super::classify;
use super::client::Arm;
use super::envelope::ErrorDetail;
use super::error::Error;

/// A stored handle that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("the stored operation handle is not valid")]
pub struct BadHandle {
    #[source]
    pub source: serde_json::Error,
}

/// The effect of an operation on its resource. It decides what the resource's state means once Azure has forgotten the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperationKind {
    Write,
    Act,
    Delete,
}

/// Everything needed to poll an operation again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Handle {
    pub(crate) kind: OperationKind,
    /// The path of the resource. Its provisioning state decides when no URL of the operation works any more.
    pub(crate) resource: String,
    pub(crate) api: Api,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// Whether the first response was already final.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
    /// The target regions that an image version must still have when its update has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) regions: Vec<String>,
    /// Delay before the first poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_poll: Option<Duration>,
}

impl Handle {
    /// Creates the handle of the operation that a response started.
    pub(crate) fn from_answer(answer: &Answer, kind: OperationKind, resource: impl Into<String>, api: Api) -> Self {
        let named = answer.operation_url.is_some() || answer.location.is_some();
        // A 200 or 201 with a resource body carries its provisioning state; a 202 is never finished.
        let finished = answer.status != 202 && !named && state_in(&answer.body) == Some(Provisioning::Succeeded);
        let ended = finished || (kind != OperationKind::Write && answer.status != 202 && !named);
        Self {
            kind,
            resource: resource.into(),
            api,
            operation_url: answer.operation_url.clone(),
            location: answer.location.clone(),
            ended,
            regions: Vec::new(),
            first_poll: answer.retry_after,
        }
    }

    /// Creates a handle for an operation without a status URL, for example one that another client started. It is polled by the state
    /// of the resource.
    pub(crate) fn watching(kind: OperationKind, resource: impl Into<String>, api: Api) -> Self {
        Self { ended: false, ..Self::ended(kind, resource, api) }
    }

    /// Creates the handle of an operation that needed no action.
    pub(crate) fn ended(kind: OperationKind, resource: impl Into<String>, api: Api) -> Self {
        let resource = resource.into();
        let regions = Vec::new();
        Self { kind, resource, api, operation_url: None, location: None, ended: true, regions, first_poll: None }
    }

    pub(crate) fn encode(&self) -> OperationHandle {
        OperationHandle::new(serde_json::to_string(self).expect("handles have string keys"))
    }

    pub(crate) fn decode(handle: &OperationHandle) -> Result<Self, BadHandle> {
        serde_json::from_str(handle.as_str()).map_err(|source| BadHandle { source })
    }
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "status")]
    word: String,
    #[serde(rename = "percentComplete")]
    percent: Option<f64>,
    error: Option<ErrorDetail>,
}

#[derive(Deserialize)]
struct Stateful {
    #[serde(default)]
    properties: StatefulProperties,
}

#[derive(Default, Deserialize)]
struct StatefulProperties {
    #[serde(rename = "provisioningState")]
    state: Option<String>,
}

/// Returns the provisioning state in a body, or `None` if the body is not a resource.
fn state_in(body: &[u8]) -> Option<Provisioning> {
    let resource: Stateful = serde_json::from_slice(body).ok()?;
    Some(Provisioning::from_name(resource.properties.state.as_deref()))
}

impl Arm {
    /// Polls an operation once.
    pub(crate) async fn poll(&self, handle: &Handle) -> Result<OperationState, Error> {
        if handle.ended {
            return Ok(OperationState::Succeeded);
        }
        // An extension is a part of its scale set, which the caller reads afterwards.
        if handle.kind == OperationKind::Delete && !handle.resource.contains("/extensions/") {
            return self.poll_deletion(handle).await;
        }
        self.poll_operation(handle).await
    }

    /// Polls a deletion by its resource, so that success means that the resource is gone. The operation is polled only for a resource that
    /// is not being deleted: it knows why.
    async fn poll_deletion(&self, handle: &Handle) -> Result<OperationState, Error> {
        let answer = match self.send(&Call::get(&handle.resource, handle.api)).await {
            Ok(answer) => answer,
            Err(error) if kiln_types::FactoryError::not_found(&error) => return Ok(OperationState::Succeeded),
            Err(error) => return Err(error),
        };
        if let Some(Provisioning::InProgress(_)) = state_in(&answer.body) {
            return Ok(running(&answer, None));
        }
        if handle.operation_url.is_none() && handle.location.is_none() {
            return Ok(lost("Azure no longer knows the operation and the resource still exists"));
        }
        Ok(match self.poll_operation(handle).await? {
            OperationState::Succeeded => lost("Azure reports the deletion as done and the resource still exists"),
            state => state,
        })
    }

    /// Polls an operation by its own URL, otherwise by its result URL, otherwise by the state of the resource.
    async fn poll_operation(&self, handle: &Handle) -> Result<OperationState, Error> {
        if let Some(url) = &handle.operation_url {
            match self.follow(url).await {
                Ok(answer) if answer.status == 202 => return Ok(running(&answer, None)),
                Ok(answer) => {
                    if let Ok(status) = answer.read::<Status>() {
                        return Ok(by_status(&answer, status));
                    }
                    // The body is not an operation status, so the resource decides.
                }
                // Azure forgets operations after a while. The resource keeps its state.
                Err(error) if kiln_types::FactoryError::not_found(&error) => {}
                Err(error) => return Err(error),
            }
            return self.poll_resource(handle).await;
        }
        if let Some(url) = &handle.location {
            return match self.follow(url).await {
                Ok(answer) if answer.status == 202 => Ok(running(&answer, None)),
                Ok(_) => Ok(OperationState::Succeeded),
                Err(error) if kiln_types::FactoryError::not_found(&error) => self.poll_resource(handle).await,
                // An error response of a polled URL is the result of the operation, unless it is retryable.
                Err(Error::Answered { detail, class, .. })
                    if !class.is_retryable() && class != ErrorClass::Authentication =>
                {
                    Ok(failed(&detail))
                }
                Err(error) => Err(error),
            };
        }
        self.poll_resource(handle).await
    }

    async fn poll_resource(&self, handle: &Handle) -> Result<OperationState, Error> {
        let answer = match self.send(&Call::get(&handle.resource, handle.api)).await {
            Ok(answer) => answer,
            Err(error) if kiln_types::FactoryError::not_found(&error) => return Ok(gone(handle)),
            Err(error) => return Err(error),
        };
        let state = state_in(&answer.body).unwrap_or(Provisioning::Succeeded);
        Ok(match (state, handle.kind) {
            (Provisioning::InProgress(_), _) => running(&answer, None),
            (Provisioning::Succeeded, OperationKind::Delete) => {
                lost("Azure no longer knows the operation and the resource still exists")
            }
            (Provisioning::Succeeded, _) => OperationState::Succeeded,
            (Provisioning::Failed, _) => lost("Azure no longer knows the operation and the resource is `Failed`"),
            (Provisioning::Canceled, _) => lost("Azure no longer knows the operation and the resource is `Canceled`"),
        })
    }
}

fn by_status(answer: &Answer, status: Status) -> OperationState {
    match Provisioning::from_name(Some(&status.word)) {
        Provisioning::Succeeded => OperationState::Succeeded,
        Provisioning::InProgress(_) => running(answer, status.percent),
        Provisioning::Failed | Provisioning::Canceled => {
            let silent = || ErrorDetail {
                code: status.word.clone(),
                message: "no reason reported".into(),
                ..ErrorDetail::default()
            };
            failed(&status.error.unwrap_or_else(silent))
        }
    }
}

fn running(answer: &Answer, percent: Option<f64>) -> OperationState {
    OperationState::Running(Progress { retry_after: answer.retry_after, percent })
}

fn failed(detail: &ErrorDetail) -> OperationState {
    OperationState::Failed(Failure {
        code: detail.code.clone(),
        message: detail.to_string(),
        class: classify::classify_failure(detail),
    })
}

/// Reports a failure whose reason Azure no longer knows. It is transient, so that the caller retries.
fn lost(message: &str) -> OperationState {
    OperationState::Failed(Failure {
        code: "OperationLost".into(),
        message: message.into(),
        class: ErrorClass::Transient,
    })
}

fn gone(handle: &Handle) -> OperationState {
    if handle.kind == OperationKind::Delete {
        return OperationState::Succeeded;
    }
    let message = "Azure no longer knows the operation and the resource does not exist".to_owned();
    OperationState::Failed(Failure { code: "ResourceNotFound".into(), message, class: ErrorClass::NotFound })
}
