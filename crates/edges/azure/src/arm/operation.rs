//! Long operations: a handle that another process can take up, and one look at how far it is.

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

/// A stored handle that cannot be taken up.
#[derive(Debug, thiserror::Error)]
#[error("the stored handle of an operation cannot be read")]
pub struct BadHandle {
    /// What is wrong with it.
    #[source]
    pub source: serde_json::Error,
}

/// What an operation does to its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// It writes it.
    Write,
    /// It acts on it.
    Act,
    /// It deletes it.
    Delete,
}

/// What an operation is found by again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Handle {
    pub(crate) kind: Kind,
    /// The resource's path: its state is the truth when all URLs are lost.
    pub(crate) resource: String,
    pub(crate) api: ApiName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// The first answer already was the last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
    /// When to look for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_look: Option<Duration>,
}

/// The api-version's provider, by a name that later programs can still read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ApiName {
    Compute,
    Gallery,
    Disk,
    Network,
    Identity,
    Containers,
    Authorization,
}

impl From<Api> for ApiName {
    fn from(api: Api) -> Self {
        match api {
            Api::Compute => Self::Compute,
            Api::Gallery => Self::Gallery,
            Api::Disk => Self::Disk,
            Api::Network => Self::Network,
            Api::Identity => Self::Identity,
            Api::Containers => Self::Containers,
            Api::Authorization => Self::Authorization,
        }
    }
}

impl From<ApiName> for Api {
    fn from(name: ApiName) -> Self {
        match name {
            ApiName::Compute => Self::Compute,
            ApiName::Gallery => Self::Gallery,
            ApiName::Disk => Self::Disk,
            ApiName::Network => Self::Network,
            ApiName::Identity => Self::Identity,
            ApiName::Containers => Self::Containers,
            ApiName::Authorization => Self::Authorization,
        }
    }
}

impl Handle {
    /// The handle of what an answer began.
    pub(crate) fn of(answer: &Answer, kind: Kind, resource: impl Into<String>, api: Api) -> Self {
        let named = answer.operation_url.is_some() || answer.location.is_some();
        // A resource in a 200 or 201 tells whether it is finished; a 202 never is.
        let finished = answer.status != 202 && !named && state_in(&answer.body) == Some(Provisioning::Succeeded);
        let ended = finished || (kind != Kind::Write && answer.status != 202 && !named);
        Self {
            kind,
            resource: resource.into(),
            api: api.into(),
            operation_url: answer.operation_url.clone(),
            location: answer.location.clone(),
            ended,
            first_look: answer.retry_after,
        }
    }

    /// The handle of what somebody else began, or we did and forgot: the resource's own state tells.
    pub(crate) fn begun(kind: Kind, resource: impl Into<String>, api: Api) -> Self {
        Self { ended: false, ..Self::ended(kind, resource, api) }
    }

    /// The handle of what is so already.
    pub(crate) fn ended(kind: Kind, resource: impl Into<String>, api: Api) -> Self {
        let resource = resource.into();
        Self { kind, resource, api: api.into(), operation_url: None, location: None, ended: true, first_look: None }
    }

    /// The handle of what somebody else began: only the resource tells.
    pub(crate) fn watching(kind: Kind, resource: impl Into<String>, api: Api) -> Self {
        Self { ended: false, ..Self::ended(kind, resource, api) }
    }

    pub(crate) fn write(&self) -> OperationHandle {
        OperationHandle::new(serde_json::to_string(self).expect("a handle has string keys only"))
    }

    pub(crate) fn read(handle: &OperationHandle) -> Result<Self, BadHandle> {
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

/// The state of the resource in an answer's body; `None` where the body is none.
fn state_in(body: &[u8]) -> Option<Provisioning> {
    let resource: Stateful = serde_json::from_slice(body).ok()?;
    Some(Provisioning::from_name(resource.properties.state.as_deref()))
}

impl Arm {
    /// One look at an operation: by its own URL, else by where its result will be, else at the resource.
    pub(crate) async fn look(&self, handle: &Handle) -> Result<OperationState, Error> {
        if handle.ended {
            return Ok(OperationState::Succeeded);
        }
        if let Some(url) = &handle.operation_url {
            match self.follow(url).await {
                Ok(answer) if answer.status == 202 => return Ok(running(&answer, None)),
                Ok(answer) => {
                    if let Ok(status) = answer.read::<Status>() {
                        return Ok(by_status(&answer, status));
                    }
                    // An answer that is no status: the resource tells.
                }
                // Azure forgets operations; the resource does not forget its state.
                Err(error) if kiln_types::FactoryError::not_found(&error) => {}
                Err(error) => return Err(error),
            }
            return self.look_at_resource(handle).await;
        }
        if let Some(url) = &handle.location {
            return match self.follow(url).await {
                Ok(answer) if answer.status == 202 => Ok(running(&answer, None)),
                Ok(_) => Ok(OperationState::Succeeded),
                Err(error) if kiln_types::FactoryError::not_found(&error) => self.look_at_resource(handle).await,
                // The failed operation's own error is the answer; a failure to ask is an error of ours.
                Err(Error::Answered { detail, class, .. })
                    if !class.is_retryable() && class != ErrorClass::Authentication =>
                {
                    Ok(failed(&detail))
                }
                Err(error) => Err(error),
            };
        }
        self.look_at_resource(handle).await
    }

    async fn look_at_resource(&self, handle: &Handle) -> Result<OperationState, Error> {
        let answer = match self.send(&Call::get(&handle.resource, handle.api.into())).await {
            Ok(answer) => answer,
            Err(error) if kiln_types::FactoryError::not_found(&error) => return Ok(gone(handle)),
            Err(error) => return Err(error),
        };
        let state = state_in(&answer.body).unwrap_or(Provisioning::Succeeded);
        Ok(match (state, handle.kind) {
            (Provisioning::InProgress(_), _) => running(&answer, None),
            (Provisioning::Succeeded, Kind::Delete) => {
                lost("the operation is forgotten and the resource is still there")
            }
            (Provisioning::Succeeded, _) => OperationState::Succeeded,
            (Provisioning::Failed, _) => lost("the operation is forgotten and the resource says `Failed`"),
            (Provisioning::Canceled, _) => lost("the operation is forgotten and the resource says `Canceled`"),
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
                message: "no reason was given".into(),
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
        class: classify::of_failure(detail),
    })
}

/// Nobody knows the reason any more, so that doing it again is right.
fn lost(message: &str) -> OperationState {
    OperationState::Failed(Failure {
        code: "OperationLost".into(),
        message: message.into(),
        class: ErrorClass::Transient,
    })
}

fn gone(handle: &Handle) -> OperationState {
    if handle.kind == Kind::Delete {
        return OperationState::Succeeded;
    }
    let message = "the operation is forgotten and its resource does not exist".to_owned();
    OperationState::Failed(Failure { code: "ResourceNotFound".into(), message, class: ErrorClass::NotFound })
}
