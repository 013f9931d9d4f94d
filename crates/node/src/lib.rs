//! kilnd, the node's daemon: makes a machine the node that its document describes, at first boot and in place later.
//!
//! Decisions are `kiln-node-plan`'s; what is outside is `kiln-host`'s and `kiln-guest`'s. This crate wires them: one module per command,
//! and `Node`, everything outside that a command may touch.

pub mod args;
pub mod status;
