//! Accounts and disks.

use kiln_host::{Durability, Root};
use kiln_node_plan::{Account, Mount};

/// An account or a disk that is not as the document asks.
#[derive(Debug, thiserror::Error)]
pub enum LateError {
    /// The machine says no.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
    /// This program cannot do it.
    #[error("this version of kilnd does not {0}")]
    Unable(&'static str),
}

/// Makes an account be like this.
pub fn account(_root: &Root, _account: &Account, _durability: Durability) -> Result<(), LateError> {
    Err(LateError::Unable("set up accounts"))
}

/// An account may no longer log in.
pub fn retire(_root: &Root, _name: &str, _durability: Durability) -> Result<(), LateError> {
    Err(LateError::Unable("set up accounts"))
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
