//! Long operations, and revisions for conditional writes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;

/// The state of a resource when it was read (an ETag). A write with a revision fails if the resource changed since.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// Wraps the cloud's own value, uninterpreted.
    pub fn new(mark: impl Into<String>) -> Self {
        Self(mark.into())
    }

    /// The cloud's own value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The handle of a long operation, with which another process on another machine can continue to observe it.
///
/// Its text is defined by the edge that created it. It is only a hint: the state of the resource itself decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationHandle(String);

impl OperationHandle {
    /// Wraps the edge's own text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The edge's own text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The state of a long operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperationState {
    Running(Progress),
    /// The cloud reports success. Callers read the resource back where they can.
    Succeeded,
    Failed(Failure),
}

/// Progress of a running operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// When to poll again, if the cloud specifies it.
    pub retry_after: Option<Duration>,
    pub percent: Option<f64>,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub class: ErrorClass,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Azure's messages often begin with the code.
        if self.message.starts_with(&self.code) {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl OperationState {
    /// Whether the operation has ended.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Running(_))
    }
}
