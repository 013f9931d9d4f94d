//! What can go wrong in a world.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong in a world.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// A file could not be read or written.
    #[error("`{}`", path.display())]
    File {
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the world is not what a world writes.
    #[error("`{}` is not the record of a world", path.display())]
    Record {
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// A program could not be started.
    #[error("cannot run `{program}`")]
    Program {
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{line}` failed: {output}")]
    Failed {
        /// Its command line.
        line: String,
        /// What it said.
        output: String,
    },
    /// There is no world of this state folder around us.
    #[error("no world of `{}` is around this process; start one with `kiln local run --state {} -- COMMAND`", state.display(), state.display())]
    Outside {
        /// The state folder.
        state: PathBuf,
    },
    /// Somebody is in it already.
    #[error("a world of `{}` runs already", state.display())]
    Taken {
        /// The state folder.
        state: PathBuf,
    },
    /// Namespaces and mounts are for root.
    #[error("a world needs root: it makes namespaces, mounts and network devices")]
    NotRoot,
    /// What makes a world would change the host's mounts and network here.
    #[error("`kiln local first` is the first process of a world's own namespaces; start a world with `kiln local run`")]
    NotFirst,
    /// A program is not installed.
    #[error("`{program}` is not in `{place}`; it is in the package `{package}` of Debian and Ubuntu")]
    Missing {
        program: &'static str,
        /// The package that it is in.
        package: &'static str,
        /// Where it was looked for.
        place: String,
    },
    /// A machine ended before it ran.
    #[error("it did not start; its console says: {console}")]
    NotStarted {
        /// The end of it.
        console: String,
    },
    /// A machine still runs although it was killed.
    #[error("it still runs {seconds} s after it was killed")]
    Lingers {
        /// How long was waited.
        seconds: u64,
    },
    /// There are more machines than addresses.
    #[error("number {number} has no address: a world has {most}")]
    NoAddress {
        number: u16,
        /// How many there are.
        most: u16,
    },
}

impl WorldError {
    /// For `map_err` where a file is at fault.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
