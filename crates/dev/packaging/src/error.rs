//! Errors of building an image or a package.

use std::io;
use std::path::{Path, PathBuf};

/// The reasons why an image or a package could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot add `{path}` to the archive: {source}")]
    Entry { path: String, source: io::Error },
    /// A path that is outside the root, or that exists twice.
    #[error("invalid path `{0}`; expected a unique relative path without `..`")]
    Path(String),
    #[error("`{line}`: {source}")]
    Command { line: String, source: io::Error },
    #[error("`{line}` printed invalid JSON: {source}")]
    Json { line: String, source: serde_json::Error },
    #[error("`{line}` failed with {status}")]
    Exit { line: String, status: String },
    #[error("unsupported architecture `{0}`; expected `x86_64` or `aarch64`")]
    Architecture(String),
    #[error("{} is not static: it needs the dynamic loader {loader}", path.display())]
    NotStatic { path: PathBuf, loader: String },
    #[error("{} is not a 64-bit ELF program", .0.display())]
    NotElf(PathBuf),
    #[error("{} has no line `{line}`\nhint: chart and workspace have the same version", path.display())]
    ChartVersion { path: PathBuf, line: String },
    #[error("`{}` contains files that are not of a release; nothing was changed", .0.display())]
    NotARelease(PathBuf),
    #[error("`cargo metadata` does not list {missing}")]
    Metadata { missing: String },
    #[error("no C compiler for {0}: `{1}` is not on PATH\nhint: run `cargo xtask setup cross-compiler`")]
    NoCompiler(String, String),
    #[error("the toolchain has no target `{0}`\nhint: run `rustup target add {0}`")]
    NoTarget(String),
}

impl Error {
    /// For `map_err` on results of `std::fs`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
