//! Errors of a control plane.

use std::io;
use std::path::{Path, PathBuf};

use crate::Component;

/// Errors of a control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Missing(#[from] test_deps::Missing),
    #[error(transparent)]
    NoCache(#[from] test_deps::NoCache),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file has invalid content.
    #[error("{}: {problem}", path.display())]
    Damaged { path: PathBuf, problem: String },
    #[error("`{line}`: {source}")]
    Command { line: String, source: io::Error },
    /// A server ended, or was not ready in time.
    #[error("{component} {problem}; the end of {}:\n{tail}", log.display())]
    NotReady {
        component: Component,
        problem: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    #[error("`kubectl {arguments}` ended with {status}:\n{stderr}")]
    Kubectl { arguments: String, status: String, stderr: String },
    #[error("cannot create the certificate of `{name}`: {source}")]
    Certificate { name: String, source: rcgen::Error },
    /// rcgen supports at most two groups.
    #[error("`{user}` has {groups} groups; at most 2 are supported")]
    TooManyGroups { user: String, groups: usize },
    #[error("no free port between {from} and {to} on 127.0.0.1")]
    NoPort { from: u16, to: u16 },
    #[error("invalid name `{0}`; expected up to 40 lower-case letters, digits and dashes")]
    Name(String),
    #[error("no control plane `{name}`; running: {}", if known.is_empty() { "none" } else { known })]
    Unknown { name: String, known: String },
    #[error("cannot remove {}: process {processes} did not end", folder.display())]
    StillRunning { folder: PathBuf, processes: String },
}

impl Error {
    /// Maps an I/O error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
