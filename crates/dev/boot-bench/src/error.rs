//! The error of the boot bench.

use std::io;
use std::path::{Path, PathBuf};

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}", with_source(.0))]
    Machine(#[from] kiln_machines::Error),
    #[error("the machine of `{variant}` {problem}; the end of its console:\n{console}")]
    Boot { variant: &'static str, problem: String, console: String },
    #[error(transparent)]
    Packaging(#[from] packaging::Error),
    /// A missing test dependency, or one that is not as expected.
    #[error("{0}")]
    Dependency(String),
}

impl Error {
    /// For `map_err` on the results of `std::fs`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    /// For `map_err` where a program could not be started.
    pub(crate) fn spawn(program: &str) -> impl Fn(io::Error) -> Self + use<'_> {
        move |source| kiln_machines::Error::spawn(program)(source).into()
    }
}

fn with_source(error: &kiln_machines::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}
