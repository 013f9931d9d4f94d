//! Drain: which pods leave a node, and the driver that makes them.
//!
//! [`decide`] says what becomes of a pod, [`judge`] what the server's answer to an eviction means; both are tables, written in
//! `docs/reference/drain.md`. The driver lists, decides, asks and lists again until nothing that must leave is left.

mod answer;
mod ask;
mod decide;
mod driver;
mod failure;
mod force;
mod held;
mod ledger;
mod pod;
mod progress;

pub use answer::{EvictAnswer, judge};
pub use decide::{BlockReason, Flags, SkipReason, Verdict, decide};
pub use driver::{DrainOptions, Drained};
pub use failure::{DrainError, Left, LeftBecause};
pub use pod::{Controller, PodFacts, PodId};
pub use progress::Progress;
