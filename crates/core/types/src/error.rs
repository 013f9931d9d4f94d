//! Classes of errors, the same for every cloud.

use serde::{Deserialize, Serialize};

/// The kinds of failure that a caller handles differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    NotFound,
    /// The resource changed since it was read, or exists and must not.
    Precondition,
    /// Another operation is running on the resource.
    Busy,
    /// A later operation replaced this one.
    Preempted,
    /// The caller is authenticated but not allowed.
    Permission,
    Authentication,
    /// A lock prevents it, until a person removes the lock.
    Locked,
    /// A policy of the organization prevents it.
    Policy,
    Throttled,
    /// A limit of the subscription that a person must raise.
    Quota,
    /// The region has no capacity for the machine size at the moment.
    Capacity,
    /// The region lacks the requested kind of storage.
    StorageUnsupported,
    /// The request is wrong; repeating it does not help.
    Invalid,
    /// The cloud or the connection failed; the same request may succeed.
    Transient,
    /// The response was not understood.
    Unexpected,
    /// kiln refused to send the request.
    Refused,
}

impl ErrorClass {
    /// What a person can do about it, for a `hint:` line.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::Locked => Some("remove the lock that the message names, then run the command again"),
            Self::Policy => Some(
                "the message names the policy; tags that it requires can be set with `--tags`, anything else needs an exemption",
            ),
            _ => None,
        }
    }

    /// Whether the same request may succeed later without anyone changing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Preempted | Self::Throttled | Self::Capacity | Self::Transient)
    }
}

/// An error of an edge.
pub trait FactoryError: std::error::Error + Send + Sync + 'static {
    /// The kind of failure.
    fn class(&self) -> ErrorClass;

    /// Whether the resource does not exist.
    fn not_found(&self) -> bool {
        self.class() == ErrorClass::NotFound
    }

    /// Whether the resource changed since the caller read it, so that the caller must read it and decide again.
    fn precondition(&self) -> bool {
        self.class() == ErrorClass::Precondition
    }

    /// Whether another operation prevents this one.
    fn conflict(&self) -> bool {
        matches!(self.class(), ErrorClass::Busy | ErrorClass::Preempted)
    }

    /// Whether the same request may succeed later.
    fn retryable(&self) -> bool {
        self.class().is_retryable()
    }

    /// Whether a person must grant a permission first.
    fn permission(&self) -> bool {
        matches!(self.class(), ErrorClass::Permission | ErrorClass::Authentication)
    }
}
