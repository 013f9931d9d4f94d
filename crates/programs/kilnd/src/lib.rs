//! kilnd, the node's daemon: makes a machine the node that its document describes, at first boot and in place later.
//!
//! Decisions are `kiln-node-plan`'s; what is outside is `kiln-host`'s and `kiln-guest`'s. This crate wires them. [`node::Node`] is
//! everything outside that a command may touch. [`offer::Candidate`] is a document that was read and checked, [`way::Way`] the way to it
//! with everything that was looked at, [`apply`] goes it and [`rollback`] goes back. What is to be in force is written ahead
//! ([`store`]), so that whoever is cut off goes on at the next start.

pub mod apiserver;
pub mod apply;
pub mod args;
pub mod boot;
pub mod commands;
pub mod identity;
pub mod log;
pub mod node;
pub mod os;
pub mod sources;
pub mod status;
pub mod watch;
