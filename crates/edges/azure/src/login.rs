//! Identity and cloud: which credential to use, and which endpoints.

mod azure_json;
mod choose;
mod cloud;
mod credential;
mod discovery;
mod environment;
mod error;
mod json;
mod renewing;
mod stack;

pub use azure_json::AzureJson;
pub use choose::{LoginChoice, choose};
pub use cloud::{BadCloud, Cloud};
pub use credential::{Identity, Login, ManagedIdentity, ServicePrincipal};
pub use discovery::discover;
pub use environment::Environment;
pub use error::{LoginError, Position};
pub use renewing::RenewingCredential;
pub use stack::read_stack_file;
