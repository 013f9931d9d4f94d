//! Nodes: which machine they are, who holds them, whether they are ready.

mod birth;
mod convert;
mod find;
mod hold;
mod hold_driver;
mod provider_id;
mod ready;

pub use hold::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, HoldWhat, NodeHold};
pub use provider_id::{BadProviderId, ProviderId};
pub use ready::ReadyWhen;
