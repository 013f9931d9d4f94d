//! What can go wrong between a machine and its host.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::sources::dmi::BadVmId;
use crate::sources::ovf::BadOvf;

/// What can go wrong between a machine and its host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or device cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A device cannot be mounted.
    #[error("`{}` cannot be mounted as any of udf, iso9660", path.display())]
    Mount {
        path: PathBuf,
        /// Why the last one failed.
        source: io::Error,
    },
    /// The firmware gives an id that is none.
    #[error("`{}` holds no id of a machine", path.display())]
    VmId { path: PathBuf, source: BadVmId },
    /// An `ovf-env.xml` is not what Azure writes.
    #[error("the ovf-env of `{place}` cannot be read")]
    Ovf {
        /// The file or URL.
        place: String,
        source: BadOvf,
    },
    /// A service answers what asking again does not change.
    #[error("`{url}` answers {status}: {message}")]
    Refused {
        /// What was asked.
        url: String,
        status: u16,
        /// Its words, in short.
        message: String,
    },
    /// A service did not give an answer for too long.
    #[error("`{url}` gave no answer in {} s and {attempts} attempts; the last was: {last}", waited.as_secs())]
    Deadline {
        /// What was asked.
        url: String,
        waited: Duration,
        attempts: u32,
        /// What became of the last attempt.
        last: String,
    },
    /// An answer is not what the service promises.
    #[error("`{url}` answers what cannot be read: {reason}")]
    Answer {
        /// What was asked.
        url: String,
        reason: String,
    },
}

impl Error {
    /// Whether a later attempt may end better without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Deadline { .. } | Self::Mount { .. } | Self::Read { .. })
    }
}
