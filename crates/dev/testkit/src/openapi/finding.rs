//! Differences between an exchange and its specification.

use std::fmt;

/// One difference between an exchange and its specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The `operationId`, or method and path if the operation is unknown.
    pub operation: String,
    pub side: Side,
    /// A JSON pointer into the body; empty if the finding is not about the body's content.
    pub pointer: String,
    pub kind: Kind,
    pub message: String,
}

/// The half of an exchange that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Request,
    Response,
}

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    UnknownPath,
    /// The path is known, the method is not.
    UnknownMethod,
    /// A path, query or header parameter is unknown, missing or malformed.
    Parameter,
    /// A body is missing or unexpected.
    Body,
    UndeclaredStatus,
    /// The body violates the JSON Schema: type, enumeration, pattern or required property.
    Schema,
    UnknownProperty,
    /// The client sent a property that only the service sets, or that cannot be updated.
    ReadOnly,
    /// The service returned a property that only clients send.
    WriteOnly,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, side, pointer, message, .. } = self;
        write!(f, "{operation} {side}")?;
        if !pointer.is_empty() {
            write!(f, " at {pointer}")?;
        }
        // Messages may quote values of several lines.
        write!(f, ": {}", message.replace('\n', " "))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
        })
    }
}
