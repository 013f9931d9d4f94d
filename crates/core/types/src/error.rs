//! What an error means for who asked, whatever cloud it comes from.

use serde::{Deserialize, Serialize};

/// The kinds of failure that a caller acts upon differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    /// The thing does not exist.
    NotFound,
    /// Somebody else wrote since it was read, or it exists already and must not.
    Precondition,
    /// Another operation holds the resource.
    Busy,
    /// A later operation took this one's place.
    Preempted,
    /// Who asks is known and may not.
    Permission,
    /// Who asks could not prove who they are.
    Authentication,
    /// Too many requests.
    Throttled,
    /// A limit of the subscription; a person raises it.
    Quota,
    /// The cloud has no such machine free right now.
    Capacity,
    /// The region lacks the asked kind of storage.
    StorageUnsupported,
    /// The request itself is wrong, and would be wrong again.
    Invalid,
    /// The cloud or the way to it failed; the same request may work.
    Transient,
    /// The answer was none that is understood.
    Unexpected,
    /// This program refused to send the request.
    Refused,
}

impl ErrorClass {
    /// Whether the same request may succeed later with nobody doing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Preempted | Self::Throttled | Self::Capacity | Self::Transient)
    }
}

/// An error of an edge, as the engine sees it.
pub trait FactoryError: std::error::Error + Send + Sync + 'static {
    /// What it means.
    fn class(&self) -> ErrorClass;

    /// Whether the thing does not exist.
    fn not_found(&self) -> bool {
        self.class() == ErrorClass::NotFound
    }

    /// Whether the resource is not what the caller last read: read again, then decide again.
    fn precondition(&self) -> bool {
        self.class() == ErrorClass::Precondition
    }

    /// Whether another operation stands in the way.
    fn conflict(&self) -> bool {
        matches!(self.class(), ErrorClass::Busy | ErrorClass::Preempted)
    }

    /// Whether the same request may succeed later.
    fn retryable(&self) -> bool {
        self.class().is_retryable()
    }

    /// Whether a person must grant something first.
    fn permission(&self) -> bool {
        matches!(self.class(), ErrorClass::Permission | ErrorClass::Authentication)
    }
}
