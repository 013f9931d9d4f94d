//! The documents that kiln owns. A `NodeConfig` tells a node what to be; it says where a secret is and never holds one. Beside each
//! field stands what it costs to change it.

pub mod canonical;
pub mod changes;
mod describe;
mod effect;
mod hub;
pub mod media;
pub mod reference;
pub mod schema;
pub mod secrets;
pub mod spec;
pub mod v1alpha1;
mod validate;

pub use describe::{Describe, FieldInfo, Kind, Shape};
pub use effect::Effect;
pub use hub::{Metadata, NodeConfig, ParseError, Signature, Unsupported};
pub use validate::{Invalid, Violation};
