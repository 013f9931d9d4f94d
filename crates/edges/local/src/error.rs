//! The error of the local factory.

use std::io;
use std::path::{Path, PathBuf};

use kiln_types::{BadName, ErrorClass, FactoryError};

use crate::runner::{MachineKey, RunnerError};

/// Why an operation of the local factory failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is damaged", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("`{}` has format {format}, but this version of kiln supports up to {supported}; use a newer version", path.display())]
    NewerFormat { path: PathBuf, format: u32, supported: u32 },
    #[error("`{}` has format {format}, but this version of kiln needs {supported}; use the version that created it, or another folder with `--state` (nothing was changed)", path.display())]
    OlderFormat { path: PathBuf, format: u32, supported: u32 },
    #[error("`{}` is not a state folder; create one with `kiln local run`", path.display())]
    NoStore { path: PathBuf },
    #[error("{noun} `{name}` does not exist")]
    Unknown { noun: &'static str, name: String },
    #[error("{noun} `{name}` was changed: expected revision {expected}, but it has {current}; read it again")]
    Changed { noun: &'static str, name: String, expected: String, current: u64 },
    #[error("{noun} `{name}` already exists: {existing}")]
    AlreadyExists { noun: &'static str, name: String, existing: String },
    #[error(
        "cannot create a snapshot of machine `{machine}` while it is running: its system shares the host's kernel; stop it first"
    )]
    Running { machine: MachineKey },
    #[error("pool `{pool}` is not a canary: it has no tag `{tag}`; it was not deleted", tag = kiln_types::CANARY_TAG)]
    NotCanary { pool: String },
    #[error("image definition `{definition}` has no included version")]
    NothingIncluded { definition: String },
    #[error("invalid {noun} `{text}`: {rule}")]
    Invalid { noun: &'static str, text: String, rule: &'static str },
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("cannot add extension `{extension}` to pool `{pool}`: local machines have no agent that runs extensions")]
    NoExtensions { pool: String, extension: String },
    #[error("cannot create another machine: all {limit} machine numbers are used")]
    Full { limit: u16 },
    #[error(transparent)]
    Runner(#[from] RunnerError),
    #[error(transparent)]
    Tool(#[from] kiln_machines::Error),
    /// See [`Store::stop_before`](crate::Store::stop_before).
    #[error("stopped before change {number}")]
    Stopped { number: u64 },
    #[error("a worker thread failed")]
    Worker(#[from] tokio::task::JoinError),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn unknown(noun: &'static str, name: &(impl ToString + ?Sized)) -> Self {
        Self::Unknown { noun, name: name.to_string() }
    }
}

impl FactoryError for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Unknown { .. } => ErrorClass::NotFound,
            Self::Changed { .. } | Self::AlreadyExists { .. } => ErrorClass::Precondition,
            Self::Running { .. }
            | Self::NotCanary { .. }
            | Self::NewerFormat { .. }
            | Self::OlderFormat { .. }
            | Self::NoStore { .. } => ErrorClass::Refused,
            Self::NothingIncluded { .. } | Self::Invalid { .. } | Self::Name(_) | Self::NoExtensions { .. } => {
                ErrorClass::Invalid
            }
            Self::Full { .. } => ErrorClass::Quota,
            Self::Runner(_) => ErrorClass::Transient,
            Self::Io { .. } | Self::Damaged { .. } | Self::Tool { .. } | Self::Stopped { .. } | Self::Worker(_) => {
                ErrorClass::Unexpected
            }
        }
    }
}
