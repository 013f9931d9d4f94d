//! Why there is no image.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// An archive could not be written.
    #[error("the entry `{path}` does not fit an archive: {source}")]
    Entry { path: String, source: io::Error },
    /// A path that would leave the image's root, or that is there twice.
    #[error("`{0}` is no path of an image: relative, without `..`, and once")]
    Path(String),
    /// A command that could not be run.
    #[error("`{line}`: {source}")]
    Command { line: String, source: io::Error },
    /// A command that failed.
    #[error("`{line}` ended with {status}")]
    Exit {
        line: String,
        /// Its exit status.
        status: String,
    },
    /// The machine is of a kind for which no image is made.
    #[error("no image is made for `{0}`: x86_64 and aarch64 are known")]
    Architecture(String),
    /// The binary needs a loader, which the image does not have.
    #[error("{} is not static: it asks for the loader {loader}", path.display())]
    NotStatic {
        path: PathBuf,
        /// What it asks for.
        loader: String,
    },
    /// Not a program of Linux.
    #[error("{} is no ELF program", .0.display())]
    NotElf(PathBuf),
}

impl Error {
    /// For `map_err` on what `std::fs` returns.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
