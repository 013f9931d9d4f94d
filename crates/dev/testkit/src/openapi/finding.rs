//! Findings.

use std::fmt;

/// One difference between an exchange and the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The `operationId`, or the method and path of an unknown operation.
    pub operation: String,
    pub side: Side,
    /// The location in the body, as a JSON pointer; empty for findings outside of bodies.
    pub pointer: String,
    pub kind: Kind,
    /// The description of the finding.
    pub message: String,
}

/// The part of an exchange that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Request,
    Response,
}

/// The broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// No specification has this path.
    UnknownPath,
    /// The path exists, but not with this method.
    UnknownMethod,
    /// A path, query or header parameter is unknown, missing or malformed.
    Parameter,
    /// A body is missing or not declared.
    Body,
    /// The operation does not declare this status.
    UndeclaredStatus,
    /// The body breaks the JSON Schema: type, enumeration, pattern, required property.
    Schema,
    /// The schema does not have this property.
    UnknownProperty,
    /// The client sent a property that only the service sets, or that cannot be updated.
    ReadOnly,
    /// The service returned a property that is never returned.
    WriteOnly,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, side, pointer, message, .. } = self;
        write!(f, "{operation} {side}")?;
        if !pointer.is_empty() {
            write!(f, " at {pointer}")?;
        }
        // A message may contain a value with several lines.
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
