//! kilnd, the node's daemon: makes a machine the node that its document describes, at first boot and in place later.
//!
//! Decisions are `kiln-node-plan`'s; what is outside is `kiln-host`'s and `kiln-guest`'s. This crate wires them. [`node::Node`] is
//! everything outside that a command may touch. [`offer::Offered`] is a document that was read and checked, [`way::Way`] the way to it
//! with everything that was looked at, [`apply`] goes it and [`rollback`] goes back. What is to be in force is written ahead
//! ([`store`]), so that whoever is cut off goes on at the next start.

pub mod act;
pub mod apply;
pub mod args;
pub mod boot;
pub mod boot_kind;
pub mod commands;
pub mod enable;
pub mod facts;
pub mod identity;
pub mod inspect;
pub mod install;
pub mod journal;
pub mod late;
pub mod metadata;
pub mod network;
pub mod node;
pub mod observe;
pub mod offer;
pub mod platform;
pub mod rollback;
pub mod seal;
pub mod services;
mod show;
pub mod status;
pub mod store;
pub mod wait;
pub mod watch;
pub mod way;
