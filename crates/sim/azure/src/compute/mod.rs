//! `Microsoft.Compute`: scale sets, VMs, disks, snapshots and galleries.

pub(crate) mod community;
mod controller;
pub(crate) mod definition;
pub(crate) mod disk;
pub(crate) mod extension;
pub(crate) mod gallery;
mod grammar;
pub(crate) mod image;
pub(crate) mod instance;
pub(crate) mod machine;
mod power;
pub(crate) mod scale_set;
pub(crate) mod snapshot;
pub(crate) mod version;
