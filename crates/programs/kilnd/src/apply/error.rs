//! Why a document cannot be applied to this machine.

use std::path::PathBuf;

use kiln_node_plan::layout::{self, IMAGE};
use kiln_node_plan::{BadCredential, IncompatibleConfig};

use crate::apply::deferred::DiskError;
use crate::{os, sources};

/// A transition that could not be planned, or a step that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Os(#[from] os::Error),
    #[error(transparent)]
    Sources(#[from] sources::Error),
    #[error("cannot parse `{IMAGE}`\nhint: rebuild the image")]
    Image(#[source] serde_json::Error),
    /// Other users may have read the credential already.
    #[error(
        "`{path}` has mode {mode:04o}, but only root may read a join credential\nhint: replace the credential and run `chmod 600 {path}`"
    )]
    CredentialExposed { path: String, mode: u32 },
    /// Another user may have written the credential.
    #[error(
        "`{path}` is owned by user {uid}, but a join credential must be owned by root\nhint: replace the credential and run `chown root {path}`"
    )]
    CredentialOwner { path: String, uid: u32 },
    #[error(
        "`spec.credentialFrom` names `{name}`, which does not exist\nhint: put the credential there and run the command again"
    )]
    NoCredential { name: String },
    #[error("`spec.credentialFrom` names `{name}`, which is not a usable credential")]
    BadCredential {
        name: String,
        #[source]
        source: BadCredential,
    },
    #[error("this machine cannot apply the document")]
    Incompatible(#[from] IncompatibleConfig),
    /// A folder of the image is a link to one of kiln's.
    #[error("`spec.files[{path}]`: a document may not write to `{real}`, to which this path leads")]
    Reserved { path: String, real: String },
    #[error(transparent)]
    Disk(DiskError),
    /// The kubelet or the runtime keeps its data on this disk.
    #[error("cannot mount `{device}` on `{path}`, where the kubelet or the runtime keeps its data")]
    EarlyMount {
        device: String,
        path: String,
        #[source]
        source: Box<ServiceError>,
    },
    #[error(
        "the kernel has no setting `{0}`\nhint: if a kernel module provides it, add the module to `spec.os.kernelModules`"
    )]
    NoSetting(String),
    #[error(
        "the kernel has no setting `{path}`: its module `{module}` is not loaded\nhint: add the module to the image, or see `journalctl -u systemd-modules-load`"
    )]
    ModuleNotLoaded { path: String, module: &'static str },
    #[error("cannot restore `{0}`: its backup `{copy}` is missing", copy = layout::before(.0))]
    BackupMissing(String),
    /// A service did not start, restart or reload. The only error after which kilnd reverts a generation that is in force.
    #[error(transparent)]
    Service(ServiceError),
    /// A deferred step failed because of a service. Not a `Service` error, because it does not cause a revert.
    #[error(transparent)]
    Deferred(ServiceError),
    #[error("cannot read or write `{}`", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("`{tool}` failed: {output}")]
    Tool { tool: String, output: String },
}

impl Error {
    /// Whether a disk that has to be mounted before the kubelet starts is not mounted. Without it the kubelet would use the OS disk.
    pub fn is_early_mount(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::EarlyMount { .. })
    }
}

/// A service that is not in the desired state.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Systemd(#[from] os::Error),
    #[error("`{unit}` is not running ({result})\nhint: see `journalctl -u {unit}`")]
    Failed { unit: String, result: String },
}
