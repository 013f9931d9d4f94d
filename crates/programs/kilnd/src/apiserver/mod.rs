//! A client of the API server that uses the kubelet's certificate. Synchronous.
//!
//! [`Client`] may do what `NodeRestriction` lets a kubelet do to its own Node: set some labels, annotations and the status, and post events.
//! The API server rejects taints and other labels. [`connection`] follows the kubelet's certificate rotation.

mod client;
mod condition;
mod connection;
mod error;
mod event;
mod node;

pub use client::Client;
pub use condition::{Condition, ConditionStatus};
pub use connection::Target;
pub use error::Error;
pub use event::{Event, Severity};
pub use node::Node;
