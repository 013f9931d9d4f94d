//! What is wrong with an exchange.

use std::fmt;

/// One way in which an exchange differs from the specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The `operationId`, or method and path where there is no such operation.
    pub operation: String,
    /// Who is wrong.
    pub side: Side,
    /// Where in the body, as a JSON pointer; empty if the finding is not about a place in a body.
    pub pointer: String,
    /// Which rule is broken.
    pub kind: Kind,
    /// The finding in words.
    pub message: String,
}

/// The half of an exchange that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What the client sent.
    Request,
    /// What the service answered.
    Response,
}

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// No specification has this path.
    UnknownPath,
    /// The path exists, the method does not.
    UnknownMethod,
    /// A path, query or header parameter is unknown, missing or malformed.
    Parameter,
    /// A body is missing, or there is one where none is declared.
    Body,
    /// The operation does not declare this status.
    UndeclaredStatus,
    /// The body breaks the JSON Schema: type, enumeration, pattern, required property.
    Schema,
    /// The schema does not name this property.
    UnknownProperty,
    /// The client sent a property that the service alone sets, or that cannot be updated.
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
        // A message may quote a value that spans lines.
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
