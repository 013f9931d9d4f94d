//! Node Bootstrapping Variables: 127 fields that a script passes to the provisioning scripts of an AKS image as 128 environment
//! variables.

mod field;
mod inputs;
pub mod kubelet;
pub mod labels;
pub mod rules;
mod script;
mod variables;

pub use field::{Field, Origin, Shape, UnknownField};
pub use inputs::{Gpu, InputError, Inputs};
pub use script::{FIXED, ScriptError};
pub use variables::{ValueError, Variables};
