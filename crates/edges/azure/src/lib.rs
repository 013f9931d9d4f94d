//! Azure: credentials, ARM client, and the implementation of `Factory` and `Machines`.
//!
//! [`login`] selects the identity and the cloud, [`wire`] sends requests, [`arm`] interprets responses (errors, retries, long-running
//! operations), and [`Azure`] implements the ports. Nothing in this crate reads the environment or the clock by itself.

pub mod arm;
mod edge;
pub mod login;
mod models;
pub mod role;
pub mod wire;

pub use arm::{Error, ErrorDetail};
pub use edge::{Azure, AzureOptions};
