//! A client of the API server that uses the kubelet's certificate. Synchronous.
//!
//! [`Client`] may do what `NodeRestriction` lets a kubelet do to its own Node: set some labels, annotations and the status, and post events.
//! The API server rejects taints and other labels. Where the cluster has NodeStates, it also follows that of its node ([`node_state`]), reads
//! the NodeConfig that it names, and writes its status. [`connection`] follows the kubelet's certificate rotation.

mod client;
mod condition;
mod connection;
mod error;
mod event;
mod node;
mod node_state;

pub use client::Client;
pub use condition::{Condition, ConditionStatus};
pub use connection::Target;
pub use error::Error;
pub use event::{Event, Severity};
pub use node::Node;
pub use node_state::{NodeState, NodeStateEvent, NodeStateEvents};
