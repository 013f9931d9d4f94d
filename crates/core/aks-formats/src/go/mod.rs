//! Go behaviour that the formats depend on: hashes, durations and number formatting.

pub mod cluster_id;
pub mod duration;
pub mod number;
pub mod structure;
