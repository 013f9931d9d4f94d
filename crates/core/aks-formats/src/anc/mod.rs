//! `AKSNodeConfig` v1, the configuration of the AKS node controller: parsing, serialization, and the environment variables that the
//! controller derives from it.

mod cluster;
mod components;
mod config;
mod declare;
mod direct;
mod document;
mod enums;
mod environment;
pub mod hotfix;
mod kubelet;
mod localdns;
mod sysctl;
mod system;
mod target;
mod text;
mod wire;

pub use cluster::*;
pub use components::{ComponentsError, GpuDrivers};
pub use config::Configuration;
pub use document::{ParseError, Parsed, VersionError, parse};
pub use enums::*;
pub use environment::{Host, containerd_file};
pub use kubelet::*;
pub use localdns::corefile;
pub use sysctl::BadSysctl;
pub use system::*;
