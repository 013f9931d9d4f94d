//! Nodes: their machine, their hold, their readiness.

mod find;
mod hold;
mod hold_driver;
mod manager;
mod provider_id;
mod ready;
mod registration;
mod seen;

pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, Hold, HoldScope};
pub use manager::Manager;
pub use provider_id::{BadProviderId, ProviderId};
pub use ready::ReadyWhen;
pub use seen::{NodeSeen, Readiness, System, Taint};
