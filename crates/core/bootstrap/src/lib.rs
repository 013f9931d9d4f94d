//! Seven kinds of source, one answer, the same bytes every time: layers of configuration are resolved to a value per field that
//! knows where it came from, and rendered for a node. Values in, values out.

mod bootstrapper;
mod check;
pub mod compare;
mod derive;
mod document;
pub mod drift;
pub mod family;
mod field;
pub mod images;
mod kind;
pub mod launch;
mod layer;
pub mod node_drift;
pub mod reference;
pub mod render;
mod resolve;
pub mod review;
pub mod sources;
pub mod trust;

pub use bootstrapper::{AksVariables, Bootstrapper, Kilnd, KubeadmJoin, RenderError};
pub use check::{Problem, Problems};
pub use derive::DeriveError;
pub use document::{BadDocument, Document};
pub use field::{Field, Form, UnknownField};
pub use kind::{Hardcoded, Kind, Place};
pub use layer::{Assignment, AssignmentError, Layer};
pub use resolve::{Explained, Resolved, Value, resolve};
