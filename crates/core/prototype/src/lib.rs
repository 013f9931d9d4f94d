//! The prototype operation as pure decisions: values in, values out, no I/O and no clock.
//!
//! A run turns one node of a pool, the donor, into the image of the pool's new nodes. [`decide::next`] is the heart of it: given the
//! [`journal`] of a run and what was [`observed`], it returns the next thing to do. `kiln-engine` does it and calls it again.
//!
//! - Before a run: [`donor`] chooses the node, [`join`] how its clones join, [`preflight`] collects blockers, [`plan`] describes what a run
//!   would do.
//! - During a run: [`run`] has its options and header, [`step`] its steps and holds, [`action`] the instructions for an edge.
//! - Afterwards: [`rollback`] and [`refresh`]; [`status`], [`history`], [`diff`], [`latest`] and [`provenance`] describe image versions.

pub mod action;
mod assess;
pub mod cost;
pub mod decide;
pub mod diff;
pub mod donor;
mod error;
pub mod history;
pub mod join;
pub mod journal;
pub mod latest;
pub mod names;
pub mod observed;
pub mod orphan;
pub mod plan;
pub mod preflight;
pub mod provenance;
pub mod refresh;
pub mod rollback;
pub mod run;
#[cfg(test)]
mod sample;
pub mod span;
pub mod status;
pub mod step;

pub use error::Error;
