//! The error of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// Why a machine could not be prepared, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("`{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot run `{program}`")]
    Spawn { program: String, source: io::Error },
    #[error("`{line}` failed ({status}): {output}")]
    Failed { line: String, status: String, output: String },
    #[error("`{program}` was not found in `{searched}`; it is in the Debian and Ubuntu package `{package}`")]
    Missing { program: &'static str, package: &'static str, searched: String },
    #[error("cannot create the namespaces of `{name}`; this needs root")]
    NoNamespaces { name: String },
}

impl Error {
    /// For `map_err` on the results of `std::fs`.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// For `map_err` on the results of `std::process`.
    pub fn spawn(program: &str) -> impl Fn(io::Error) -> Self + use<'_> {
        move |source| Self::Spawn { program: program.to_owned(), source }
    }
}
