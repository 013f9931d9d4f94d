//! `Microsoft.Compute`: scale sets, VMs, disks, snapshots and galleries.

pub(crate) mod community;
mod controller;
mod defaults;
pub(crate) mod definition;
pub(crate) mod disk;
pub(crate) mod extension;
pub(crate) mod gallery;
mod grammar;
pub(crate) mod image;
pub(crate) mod instance;
pub(crate) mod machine;
pub(crate) mod managed_image;
mod power;
pub(crate) mod scale_set;
pub(crate) mod shared;
pub(crate) mod snapshot;
pub(crate) mod version;
