//! Node configuration from seven kinds of source.
//!
//! [`sources`] turns files, objects, environment variables and arguments into [`Source`]s. [`resolve`] picks one value per field and
//! keeps its provenance. [`render`] turns the resolved values into the bytes a node boots from; the same input always gives the same
//! bytes. [`drift`], [`compare`] and [`review`] answer questions about values that were resolved before.

mod bootstrapper;
mod check;
pub mod compare;
mod derive;
mod document;
pub mod drift;
pub mod family;
mod field;
pub mod images;
pub mod launch;
pub mod node_drift;
mod provenance;
pub mod reference;
pub mod render;
mod resolve;
pub mod review;
mod source;
pub mod sources;
pub mod trust;

pub use bootstrapper::{AksVariables, Bootstrapper, Kilnd, KubeadmJoin, RenderError};
pub use check::{InvalidValue, InvalidValues};
pub use derive::DeriveError;
pub use document::{BadDocument, Document};
pub use field::{Field, UnknownField, ValueType};
pub use provenance::{Hardcoded, SourceKind, SourcePosition};
pub use resolve::{Explanation, Resolved, Value, resolve};
pub use source::{Assignment, AssignmentError, Source};
