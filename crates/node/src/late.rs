//! Disks: what can wait until the kubelet runs, and may run tools of the system.

use kiln_host::Root;
use kiln_node_plan::Mount;

/// A disk that is not as the document asks.
#[derive(Debug, thiserror::Error)]
pub enum LateError {
    /// The machine says no.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
    /// This program cannot do it.
    #[error("this version of kilnd does not {0}")]
    Unable(&'static str),
}

/// The root file system grows to its disk.
pub fn grow_root(_root: &Root) -> Result<(), LateError> {
    Err(LateError::Unable("grow file systems"))
}

/// A swap file gets this size.
pub fn swap(_root: &Root, _path: &str, _mib: u64) -> Result<(), LateError> {
    Err(LateError::Unable("make swap files"))
}

/// A disk is mounted.
pub fn mount(_root: &Root, _mount: &Mount) -> Result<(), LateError> {
    Err(LateError::Unable("mount disks"))
}
