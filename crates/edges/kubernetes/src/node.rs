//! Nodes: which machine they are, who holds them, whether they are ready.

mod birth;
mod find;
mod hold;
mod hold_driver;
mod manager;
mod provider_id;
mod ready;
mod seen;

pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, Hold, HoldWhat};
pub use manager::Manager;
pub use provider_id::{BadProviderId, ProviderId};
pub use ready::ReadyWhen;
pub use seen::{NodeSeen, Readiness, System, Taint};
