//! Long operations, and the marks by which a write says what it saw.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::ErrorClass;

/// What a resource was when it was read. A write that carries it fails when somebody else wrote in between.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// Takes the cloud's own mark, uninterpreted.
    pub fn new(mark: impl Into<String>) -> Self {
        Self(mark.into())
    }

    /// The cloud's own mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a long operation is found by again, also by another process on another machine.
///
/// Its text belongs to the edge that made it. It is a hint: the resource's own state is the truth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationHandle(String);

impl OperationHandle {
    /// Takes the edge's own text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The edge's own text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How far a long operation is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OperationState {
    /// It goes on.
    Running(Progress),
    /// It ended well, as far as the cloud says. What can be read back should be.
    Succeeded,
    /// It ended badly.
    Failed(Failure),
}

/// What is known of an operation that goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// When to look again, where the cloud said so.
    pub retry_after: Option<Duration>,
    /// How much is done, where the cloud says so.
    pub percent: Option<f64>,
}

/// Why an operation ended badly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
    /// What that means for who asked.
    pub class: ErrorClass,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl OperationState {
    /// Whether there is nothing more to wait for.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Running(_))
    }
}
