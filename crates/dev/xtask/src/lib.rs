//! The repository's own commands. Decisions (what to select, how to count, which ring may use which) are functions over values;
//! `process`, `setup` and `test` act.

pub mod args;
pub mod floor;
pub mod kube;
pub mod lanes;
pub mod process;
pub mod report;
pub mod rings;
pub mod select;
pub mod setup;
pub mod ship;
pub mod stopwatch;
pub mod tally;
pub mod test;
pub mod workspace;
