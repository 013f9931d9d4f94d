//! kilnd, the node daemon: configures a machine as the Kubernetes node that its NodeConfig describes, at first boot and in place later.
//!
//! `kiln-node-plan` decides; this crate reads, writes and waits. [`sources`], [`os`] and [`apiserver`] are the three outsides: the platform,
//! the machine and the cluster. [`node::Node`] bundles them for a command. [`identity`] detects clones and resets them, [`boot`] puts a
//! document in force before the kubelet starts, [`apply`] changes a running node and reverts failed changes, and [`watch`] does both
//! continuously. [`provisioning`] reports to the platform. [`commands`] and [`args`] are the command line, [`status`] and [`log`] the output, from which [`redact`] removes secrets.

pub mod apiserver;
pub mod apply;
pub mod args;
pub mod boot;
pub mod commands;
pub mod identity;
pub mod log;
pub mod node;
pub mod os;
pub mod provisioning;
pub mod redact;
pub mod sources;
pub mod status;
pub mod watch;
