//! Provenance of a value: the kind of source that set it, and its position there.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Reason why a value is hardcoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hardcoded {
    /// Required by the format, but nothing reads it.
    Unused,
    /// Belongs to a feature that kiln does not support.
    Unsupported,
    /// The same for every node.
    Static,
    /// Applies until a source sets the field.
    Default,
}

/// A kind of source, lowest precedence first. Explicit configuration overrides detected values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    Hardcoded(Hardcoded),
    /// Read from the cluster or the cloud.
    Detected,
    Environment,
    Settings,
    NodePool,
    NodeClass,
    /// Derived from the values of other fields.
    Computed,
}

impl SourceKind {
    /// Whether the value comes from outside the program.
    pub fn is_external(self) -> bool {
        !matches!(self, Self::Hardcoded(_) | Self::Computed)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hardcoded(Hardcoded::Unused) => "hardcoded (unused)",
            Self::Hardcoded(Hardcoded::Unsupported) => "hardcoded (unsupported)",
            Self::Hardcoded(Hardcoded::Static) => "hardcoded (static)",
            Self::Hardcoded(Hardcoded::Default) => "hardcoded (default)",
            Self::Detected => "detected",
            Self::Environment => "environment",
            Self::Settings => "settings",
            Self::NodePool => "node pool",
            Self::NodeClass => "node class",
            Self::Computed => "computed",
        })
    }
}

/// Position of a value in its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourcePosition {
    Program,
    #[serde(rename_all = "camelCase")]
    File {
        file: String,
        /// Starts at 1.
        line: u64,
        /// Starts at 1.
        #[serde(default)]
        column: u64,
        /// Path of the value inside the file, `spec.kubelet.maxPods`.
        path: String,
    },
    /// An object of the cluster.
    #[serde(rename_all = "camelCase")]
    Object {
        /// Kind and name, `AKSNodeClass/default`.
        object: String,
        path: String,
    },
    /// Name of an environment variable.
    Variable(String),
    /// API call whose response contained the value.
    Call(String),
    /// Command-line argument.
    Argument(String),
    /// Fields that the value was computed from.
    Fields(Vec<String>),
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("kiln"),
            Self::File { file, line, path, .. } => write!(f, "{file}:{line} {path}"),
            Self::Object { object, path } => write!(f, "{object} {path}"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Call(call) => f.write_str(call),
            Self::Argument(argument) => f.write_str(argument),
            Self::Fields(fields) => f.write_str(&fields.join(", ")),
        }
    }
}

/// A position as error messages show it: `file:line:column`, which editors and terminals turn into a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorPosition<'a>(pub(crate) &'a SourcePosition);

impl fmt::Display for ErrorPosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SourcePosition::File { file, line, column, path } => write!(f, "{file}:{line}:{column}: at `{path}`"),
            other => other.fmt(f),
        }
    }
}
