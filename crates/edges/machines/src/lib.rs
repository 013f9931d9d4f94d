//! Runs machines on this host: systemd-nspawn containers and QEMU virtual machines, in private namespaces.
//!
//! - [`namespaces`] starts programs in new mount, process and network namespaces, and in control groups that are removed afterwards.
//! - [`network`] enters a network namespace from a thread or a command.
//! - [`nspawn`] boots a root folder under an [`Overlay`]; [`qemu`] builds a QEMU command line and runs it.
//! - [`tools`] finds the programs that all of them call, on this system or in the root folder of another Debian.
//!
//! `kiln local`, the testkit and the boot bench differ in how long a machine lives and who may stop it. Those rules are theirs; this crate
//! has one way to start a machine, to find its processes and to remove what it leaves behind.

pub mod command;
mod error;
pub mod namespaces;
pub mod network;
pub mod nspawn;
mod overlay;
pub mod processes;
pub mod qemu;
pub mod tools;

pub use error::Error;
pub use overlay::Overlay;
