//! Nodes: their machine, their hold, their readiness.

mod annotate;
mod change;
mod convert;
mod find;
mod hold;
mod hold_driver;
mod ready;

pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, HoldScope, LOAD_BALANCER_LABEL, NodeHold};
pub use ready::ReadyWhen;
