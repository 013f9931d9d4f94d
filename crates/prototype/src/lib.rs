//! The prototype operation, decided purely.

pub mod names;
pub mod node_name;
