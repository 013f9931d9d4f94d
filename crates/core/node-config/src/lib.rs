//! The `NodeConfig` document, which describes the desired state of one node. It names where secrets are and never contains them.
//!
//! Each field is declared once, in [`spec`], with its documentation and the [`Effect`] of a change. The JSON schema, the reference page
//! and the comparison of two documents ([`changes`]) are derived from these declarations.

pub mod canonical;
pub mod changes;
mod content_secrets;
mod describe;
mod effect;
pub mod media;
mod node_config;
pub mod node_state;
pub mod reference;
pub mod schema;
pub mod secrets;
pub mod signature;
pub mod spec;
pub mod v1alpha1;
mod validate;

pub use describe::{Describe, FieldInfo, FieldType, Shape};
pub use effect::Effect;
pub use node_config::{Metadata, NodeConfig, ParseError, Unsupported};
pub use signature::{Binding, Signature, StatementError};
pub use validate::{Invalid, Violation};
