//! Machines on this machine: pools, disks, snapshots and a gallery in a folder, with no cloud.
//!
//! [`power`] is what switches a machine on and off; everything else is documents and disks under one state folder.

pub mod power;
pub mod world;

pub use power::{Body, DiskPath, Kind, MachineKey, Power, PowerError};
