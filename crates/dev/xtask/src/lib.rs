//! Development commands of the repository. Decisions (which targets to select, how to count, which ring may use which) are functions of
//! values. `process`, `setup` and `test` act.

pub mod args;
pub mod floor;
pub mod kube;
pub mod lanes;
pub mod packaging;
pub mod process;
pub mod report;
pub mod rings;
pub mod select;
pub mod setup;
pub mod stopwatch;
pub mod tally;
pub mod test;
pub mod workspace;
