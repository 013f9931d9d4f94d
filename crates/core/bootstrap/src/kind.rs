//! Kinds of source, and places.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a value stands in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hardcoded {
    /// Nothing reads it, but it must be there.
    Unused,
    /// The feature behind it is not offered.
    Unsupported,
    /// It does not change.
    Static,
    /// It is what one gets without choosing.
    Default,
}

/// A kind of source, weakest first. Explicit beats detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// In the program.
    Hardcoded(Hardcoded),
    /// Read from the cluster or the cloud.
    Detected,
    /// An environment variable.
    Environment,
    /// The global settings.
    Settings,
    /// The pool of nodes.
    NodePool,
    /// The class of nodes.
    NodeClass,
    /// A function of other values.
    Computed,
}

impl Kind {
    /// Whether somebody says it, rather than the program by itself.
    pub fn is_said(self) -> bool {
        !matches!(self, Self::Hardcoded(_) | Self::Computed)
    }
}

impl fmt::Display for Kind {
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

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the program.
    Program,
    /// In a file.
    #[serde(rename_all = "camelCase")]
    File {
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        #[serde(default)]
        column: u64,
        /// The path inside.
        path: String,
    },
    /// In an object of the cluster.
    #[serde(rename_all = "camelCase")]
    Object {
        /// Its kind and name, `AKSNodeClass/default`.
        object: String,
        /// The path inside.
        path: String,
    },
    /// In an environment variable.
    Variable(String),
    /// In the answer to a call.
    Call(String),
    /// In an argument of the command.
    Argument(String),
    /// In other fields.
    Fields(Vec<String>),
}

impl fmt::Display for Place {
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

/// A place as an error names it: with the column, as editors jump to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointed<'a>(pub(crate) &'a Place);

impl fmt::Display for Pointed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::File { file, line, column, path } => write!(f, "{file}:{line}:{column}: at `{path}`"),
            other => other.fmt(f),
        }
    }
}
