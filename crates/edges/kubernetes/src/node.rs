//! Nodes: their machine, their hold, their readiness.

mod convert;
mod find;
mod hold;
mod hold_driver;
mod provider_id;
mod ready;
mod registration;

pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, HoldScope, LOAD_BALANCER_LABEL, NodeHold};
pub use provider_id::{BadProviderId, ProviderId};
pub use ready::ReadyWhen;
