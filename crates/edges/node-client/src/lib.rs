//! The node's own view of the API server, with the certificate of its kubelet. Synchronous.
//!
//! What a [`Client`] may do is what the API server lets a kubelet do to its own node: labels of some domains, annotations, the status,
//! events. Taints and other labels it may not, and is told so by the server.

mod client;
mod condition;
mod connection;
mod error;
mod event;
mod node;

pub use client::Client;
pub use condition::{Condition, Truth};
pub use connection::Place;
pub use error::ClientError;
pub use event::{Event, Severity};
pub use node::Node;
