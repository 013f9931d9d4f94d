//! Nodes: their machine, their hold, their readiness.

mod convert;
mod exclusion;
mod find;
mod hold;
mod hold_driver;
mod provider_id;
mod ready;
mod registration;

pub use exclusion::EXCLUDE_FROM_LOAD_BALANCERS;
pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, HoldScope, NodeHold};
pub use provider_id::{BadProviderId, ProviderId};
pub use ready::ReadyWhen;
