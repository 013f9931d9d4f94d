//! Azure: credentials, ARM client, Factory and Machines.
//!
//! [`login`] finds out who asks and where, [`wire`] carries requests, [`arm`] gives them meaning (errors, retries, long operations), and
//! [`Azure`] puts the engine's verbs on top. Nothing here reads the environment or the clock by itself.

pub mod arm;
mod edge;
pub mod login;
mod models;
pub mod role;
pub mod wire;

pub use arm::{Error, ErrorDetail};
pub use edge::{Azure, AzureOptions};
