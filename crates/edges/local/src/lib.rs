//! Machines on this machine: pools, disks, snapshots and a gallery in a folder, with no cloud.
//!
//! [`power`] is what switches a machine on and off; everything else is documents and disks under one state folder.

mod edge;
mod error;
mod files;
pub mod ids;
mod layers;
pub mod power;
mod records;
mod size;
mod store;
pub mod world;

pub use edge::{Clock, Local, LocalOptions, NewId, PoolSpec, Shown};
pub use error::Error;
pub use layers::QemuImg;
pub use power::{Body, DiskPath, Kind, MachineKey, Power, PowerError};
pub use size::Size;
pub use store::Store;
