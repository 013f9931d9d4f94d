//! The prototype operation, decided purely.

pub mod action;
pub mod back;
pub mod cost;
pub mod decide;
pub mod diff;
pub mod donor;
pub mod history;
pub mod journal;
mod judge;
pub mod latest;
pub mod names;
pub mod node_name;
pub mod observed;
pub mod plan;
pub mod provenance;
pub mod ready_time;
pub mod refresh;
pub mod refuse;
pub mod run;
#[cfg(test)]
mod sample;
pub mod status;
pub mod step;
