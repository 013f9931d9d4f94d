//! What can go wrong on this machine.

use std::io;
use std::path::{Path, PathBuf};

use kiln_types::{BadName, ErrorClass, FactoryError};

use crate::power::{MachineKey, PowerError};

/// What can go wrong on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A document is not what this program writes.
    #[error("`{}` is damaged", path.display())]
    Damaged {
        path: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The folder was written by a later version of this program.
    #[error("`{}` is of format {found}, and this program knows formats up to {known}: use a newer one", path.display())]
    Newer {
        path: PathBuf,
        found: u32,
        /// The latest known.
        known: u32,
    },
    /// The folder is no state folder.
    #[error("`{}` is no state folder: make one with `kiln local`", path.display())]
    NoStore { path: PathBuf },
    /// A thing does not exist.
    #[error("there is no {noun} `{name}`")]
    Unknown {
        /// What kind of thing.
        noun: &'static str,
        name: String,
    },
    /// Somebody wrote since it was read.
    #[error("{noun} `{name}` was read at revision {seen} and is at {now}: read it again")]
    Changed {
        /// What kind of thing.
        noun: &'static str,
        name: String,
        /// What the caller saw.
        seen: String,
        /// What it is.
        now: u64,
    },
    /// Something else has the name.
    #[error("{noun} `{name}` is there already: {found}")]
    InTheWay {
        /// What kind of thing.
        noun: &'static str,
        name: String,
        /// What it is.
        found: String,
    },
    /// The disk of a machine that runs was to be copied.
    #[error("machine `{machine}` runs: its disk can be copied only while it is off")]
    Running { machine: MachineKey },
    /// A pool without the mark of a canary was to be deleted as one.
    #[error("pool `{pool}` has no tag `{tag}`, so it is no canary: it is not deleted", tag = kiln_types::CANARY_TAG)]
    NoCanary { pool: String },
    /// A line has no version that new machines may be made from.
    #[error("no version of `{line}` can be used: all are excluded, or there is none")]
    NothingUsable { line: String },
    /// A name or an id that is none here.
    #[error("`{text}` is no {noun} on this machine: {rule}")]
    BadText {
        /// What it should have been.
        noun: &'static str,
        text: String,
        /// What would be one.
        rule: &'static str,
    },
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] BadName),
    /// A pool here has no extensions.
    #[error("extension `{extension}` cannot be put into pool `{pool}`: machines here have no agent that would run it")]
    NoExtensions { pool: String, extension: String },
    /// All numbers of machines are taken.
    #[error("all {most} numbers of machines are taken: remove some")]
    Full {
        /// How many there can be.
        most: u16,
    },
    /// A machine could not be switched.
    #[error(transparent)]
    Power(#[from] PowerError),
    /// A program failed.
    #[error("`{line}` failed: {message}")]
    Tool {
        line: String,
        /// What it printed.
        message: String,
    },
    /// A test ended the program here.
    #[error("stopped before change {number}")]
    Stopped {
        /// The change that was not made any more.
        number: u64,
    },
    /// A thread of ours died.
    #[error("a worker died")]
    Worker(#[from] tokio::task::JoinError),
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn unknown(noun: &'static str, name: &(impl ToString + ?Sized)) -> Self {
        Self::Unknown { noun, name: name.to_string() }
    }
}

impl FactoryError for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unknown { .. } => ErrorClass::NotFound,
            Self::Changed { .. } | Self::InTheWay { .. } => ErrorClass::Precondition,
            Self::Running { .. } | Self::NoCanary { .. } | Self::Newer { .. } | Self::NoStore { .. } => {
                ErrorClass::Refused
            }
            Self::NothingUsable { .. } | Self::BadText { .. } | Self::Name(_) | Self::NoExtensions { .. } => {
                ErrorClass::Invalid
            }
            Self::Full { .. } => ErrorClass::Quota,
            Self::Power(_) => ErrorClass::Transient,
            Self::Io { .. } | Self::Damaged { .. } | Self::Tool { .. } | Self::Stopped { .. } | Self::Worker(_) => {
                ErrorClass::Unexpected
            }
        }
    }
}
