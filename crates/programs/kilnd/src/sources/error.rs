//! The error of this module tree.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::sources::dmi::BadVmId;
use crate::sources::ovf::BadOvf;

/// A source that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot mount `{}` as udf or iso9660", path.display())]
    Mount {
        path: PathBuf,
        /// The error of the last attempt.
        source: io::Error,
    },
    #[error("`{}` contains no VM id", path.display())]
    VmId { path: PathBuf, source: BadVmId },
    #[error("cannot parse the ovf-env of `{origin}`")]
    Ovf {
        /// A file or URL.
        origin: String,
        source: BadOvf,
    },
    /// A retry does not help.
    #[error("`{url}` returned {status}: {message}")]
    Refused { url: String, status: u16, message: String },
    #[error("no response from `{url}` in {} s and {attempts} attempts; last attempt: {last}", waited.as_secs())]
    Deadline { url: String, waited: Duration, attempts: u32, last: String },
    #[error("cannot parse the response of `{url}`: {reason}")]
    Response { url: String, reason: String },
}

impl Error {
    /// Whether a retry can help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Deadline { .. } | Self::Mount { .. } | Self::Read { .. })
    }
}
