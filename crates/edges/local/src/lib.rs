//! A cloud in a folder: pools, disks, snapshots and a gallery on this host, without any cloud.
//!
//! [`sandbox`] runs the machines; everything else is documents and disks in one state folder.

mod edge;
mod error;
mod files;
pub mod ids;
mod layers;
mod records;
pub mod runner;
pub mod sandbox;
mod size;
mod store;

pub use edge::{Clock, Local, LocalOptions, MachineSummary, NewId, PoolSpec};
pub use error::Error;
pub use layers::QemuImg;
pub use runner::{DiskPath, MachineConfig, MachineKey, MachineKind, MachineRunner, RunnerError};
pub use size::Size;
pub use store::Store;
