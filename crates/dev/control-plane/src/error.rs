//! What can go wrong with a control plane.

use std::io;
use std::path::{Path, PathBuf};

use crate::Component;

/// What can go wrong with a control plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not installed.
    #[error(transparent)]
    Missing(#[from] test_deps::Missing),
    /// There is no folder for parts and runs.
    #[error(transparent)]
    NoCache(#[from] test_deps::NoCache),
    /// A file or folder.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A command could not be run.
    #[error("`{line}`: {source}")]
    Command { line: String, source: io::Error },
    /// A server ended, or was not ready in time.
    #[error("{component} {what}; the end of {}:\n{tail}", log.display())]
    NotReady {
        component: Component,
        /// What was seen.
        what: String,
        log: PathBuf,
        /// The end of it.
        tail: String,
    },
    /// `kubectl` refused.
    #[error("`kubectl {arguments}` ended with {status}:\n{stderr}")]
    Kubectl {
        /// What it was asked.
        arguments: String,
        /// How it ended.
        status: String,
        /// What it said.
        stderr: String,
    },
    /// A certificate could not be made.
    #[error("the certificate of `{name}`: {source}")]
    Certificate { name: String, source: rcgen::Error },
    /// A certificate here carries two groups at most.
    #[error("`{user}` is to be in {groups} groups; a certificate made here carries 2 at most")]
    TooManyGroups { user: String, groups: usize },
    /// No free port was found.
    #[error("no free port between {from} and {to} on 127.0.0.1")]
    NoPort {
        /// The first that was tried.
        from: u16,
        to: u16,
    },
    /// The name of a standing control plane does not fit a folder.
    #[error("`{0}` is no name: up to 40 lower-case letters, digits and dashes")]
    Name(String),
    /// There is no standing control plane of that name.
    #[error("no control plane is called `{name}`; there are: {}", if known.is_empty() { "none" } else { known })]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that are there.
        known: String,
    },
    /// Servers did not end.
    #[error("{} is still there: process {processes} did not end", folder.display())]
    Lingers {
        /// The control plane's folder.
        folder: PathBuf,
        processes: String,
    },
}

impl Error {
    /// For `map_err` on what `std::fs` returns.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
