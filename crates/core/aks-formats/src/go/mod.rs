//! What Go computes, where a contract depends on it.

pub mod cluster_id;
pub mod duration;
pub mod fnv;
pub mod number;
pub mod structure;
