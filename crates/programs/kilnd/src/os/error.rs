//! The error of this module tree.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A failed operation on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {doing} `{path}`")]
    Io {
        doing: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
    /// Existing files are unchanged.
    #[error("cannot {doing} `{path}`: the file system is full\nhint: free space on it and run the command again")]
    Full { doing: &'static str, path: String },
    /// Existing files are unchanged.
    #[error(
        "cannot {doing} `{path}`: the file system is mounted read-only\nhint: `dmesg` shows whether the kernel found errors on it"
    )]
    ReadOnly { doing: &'static str, path: String },
    #[error("invalid path `{path}`: {why}")]
    Path { path: String, why: &'static str },
    #[error("`{path}` is {found}, not {wanted}")]
    Kind { path: String, found: &'static str, wanted: &'static str },
    #[error("`{path}` has {size} bytes; the limit is {limit}")]
    TooLarge { path: String, size: u64, limit: u64 },
    #[error("cannot set the owner of `{path}`: {kind} `{name}` is not in `{list}`")]
    Owner {
        path: String,
        /// `user` or `group`.
        kind: &'static str,
        name: String,
        /// `/etc/passwd` or `/etc/group`.
        list: &'static str,
    },
    #[error("the kernel rejected the value `{value}` for `{path}`")]
    Setting { path: String, value: String },
    #[error("`{path}` is locked by {by}\nhint: wait until it has finished, then run the command again")]
    Locked {
        path: String,
        /// `process 123`, or `another process`.
        by: String,
    },
    /// Deleting would reach into another file system.
    #[error("cannot delete `{path}`: `{mount}` is mounted in it\nhint: unmount it first")]
    Mounted { path: String, mount: String },
    #[error("cannot connect to systemd at `{}`", socket.display())]
    SystemdUnreachable {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("systemd rejected `{member}` for `{unit}`: {message} ({name})")]
    SystemdRefused {
        member: String,
        unit: String,
        /// The D-Bus error name.
        name: String,
        message: String,
    },
    /// The job continues.
    #[error("systemd did not finish `{member}` of `{unit}` within {seconds} s; the job continues")]
    JobTimeout { member: String, unit: String, seconds: u64 },
    /// A test stopped kilnd here with [`crate::os::Root::stop_after`].
    #[error("stopped before operation {number}, as requested")]
    Stopped {
        /// The operation that was not executed, counted from zero.
        number: u64,
    },
}

impl Error {
    /// Whether the path, or a folder on the way to it, does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether systemd has no unit with that name.
    pub fn is_no_such_unit(&self) -> bool {
        matches!(self, Self::SystemdRefused { name, .. } if name.ends_with(".NoSuchUnit"))
    }

    /// The error number of a failed system call.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }

    pub(crate) fn io(doing: &'static str, path: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full { doing, path },
            Some(Errno::ROFS) => Self::ReadOnly { doing, path },
            _ => Self::Io { doing, path, source },
        }
    }
}
