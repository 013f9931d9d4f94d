//! Why there is no measurement.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// A command that could not be run.
    #[error("`{line}`: {source}")]
    Command { line: String, source: io::Error },
    /// A command that failed.
    #[error("`{line}` ended with {status}:\n{output}")]
    Exit {
        line: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The machine did not get to its kubelet, or did not report.
    #[error("the machine of `{variant}` {what}; the end of its console:\n{console}")]
    Machine {
        variant: &'static str,
        /// What went wrong.
        what: String,
        /// The end of its console.
        console: String,
    },
    /// The static program.
    #[error(transparent)]
    Ship(#[from] packaging::Error),
    /// A part is missing.
    #[error("{0}")]
    Part(String),
}

impl Error {
    /// For `map_err` on what `std::fs` returns.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
