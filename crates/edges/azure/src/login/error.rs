//! What is wrong with what a user gave. All of it is known before anything is started.

use std::fmt;
use std::path::PathBuf;

use super::cloud::BadCloud;

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is wrong with what a user gave.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file does not say what it must.
    #[error("{}:{place}: `{field}`: {problem}", path.display())]
    Field {
        path: PathBuf,
        place: Place,
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An environment variable is missing or wrong.
    #[error("environment variable `{name}`: {problem}")]
    Variable {
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A cloud that is not known.
    #[error(transparent)]
    Cloud(#[from] BadCloud),
    /// The credential refuses its parts.
    #[error("cannot log in with {identity}: {problem}")]
    Credential {
        /// What was tried.
        identity: &'static str,
        /// Why not.
        problem: String,
    },
    /// A cloud did not tell its endpoints.
    #[error("cannot learn the endpoints of `{url}`: {problem}")]
    Discovery {
        /// What was asked.
        url: String,
        /// Why not.
        problem: String,
    },
}
