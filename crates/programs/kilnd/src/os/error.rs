//! What can go wrong on a machine.

use std::io;

use rustix::io::Errno;

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system says no.
    #[error("cannot {doing} `{path}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: String,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// No room. Nothing that was there before has changed.
    #[error("no room to {doing} `{path}`: the file system is full; free space on it and run again")]
    Full {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: String,
    },
    /// The file system does not take writes. Nothing that was there before has changed.
    #[error(
        "cannot {doing} `{path}`: the file system is mounted read-only; `dmesg` says whether the kernel found it damaged"
    )]
    ReadOnly {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: String,
    },
    /// A path that names nothing, or something outside.
    #[error("`{path}` is no usable path: {why}")]
    Path { path: String, why: &'static str },
    /// Something else is there.
    #[error("`{path}` is {found}, not {wanted}")]
    Kind {
        path: String,
        /// What is there.
        found: &'static str,
        /// What should be there.
        wanted: &'static str,
    },
    /// A file is larger than anything that is expected there.
    #[error("`{path}` has {size} bytes, more than the {limit} that are expected there")]
    TooLarge { path: String, size: u64, limit: u64 },
    /// The machine does not know the owner of a file.
    #[error("`{path}` is to belong to the {kind} `{name}`, which is not in `{list}`")]
    Owner {
        path: String,
        /// `user` or `group`.
        kind: &'static str,
        name: String,
        /// Where they were looked for.
        list: &'static str,
    },
    /// The kernel does not take a value.
    #[error("the kernel does not take `{value}` for `{path}`")]
    Setting { path: String, value: String },
    /// Somebody else is at work.
    #[error("`{path}` is held by {by}; wait for it to end, or look at what it does")]
    Held {
        path: String,
        /// Who has it: `process 123`, or `another process`.
        by: String,
    },
    /// Deletion would reach into another file system.
    #[error("`{path}` is not deleted: `{mount}` is mounted in it; unmount it first")]
    Mounted {
        /// What was to be deleted.
        path: String,
        /// The mount point.
        mount: String,
    },
    /// A test asked for the end here.
    #[error("stopped before operation {number}, as asked")]
    Stopped {
        /// The operation that was not done, counted from zero.
        number: u64,
    },
}

impl Error {
    /// Whether anything is known to be absent: the path, or a folder on the way to it.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The number of the system's answer, where that is what went wrong.
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
