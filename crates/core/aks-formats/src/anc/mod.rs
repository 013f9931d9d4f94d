//! `AKSNodeConfig` v1: the configuration of Azure's node controller, both ways, and the environment that it becomes.

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
mod wire;
mod words;

pub use cluster::*;
pub use components::{ComponentsError, GpuDrivers};
pub use config::Configuration;
pub use document::{ParseProblem, Parsed, VersionError, parse};
pub use enums::*;
pub use environment::{Host, containerd_file};
pub use kubelet::*;
pub use localdns::corefile;
pub use sysctl::BadSysctl;
pub use system::*;
