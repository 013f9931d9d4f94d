//! The prototype operation, decided purely.

pub mod cost;
pub mod diff;
pub mod history;
pub mod latest;
pub mod names;
pub mod node_name;
pub mod provenance;
pub mod ready_time;
#[cfg(test)]
mod sample;
