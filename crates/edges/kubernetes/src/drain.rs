//! Drain: which pods leave a node, and the driver that evicts them.
//!
//! [`decide`] chooses what happens to a pod, [`classify`] interprets the server's response to an eviction; both implement tables of
//! `docs/reference/drain.md`. The driver lists the pods, decides, evicts, and lists again until no pod remains that must leave.

mod cordon;
mod decide;
mod driver;
mod error;
mod evict;
mod force;
mod outcome;
mod pod;
mod progress;
mod tracker;
mod volumes;

pub use decide::{BlockReason, EvictionDecision, Flags, SkipReason, decide};
pub use driver::{DrainOptions, Drained};
pub use error::{DrainError, RemainReason, RemainingPod};
pub use outcome::{EvictionOutcome, classify};
pub use pod::{Controller, PodFacts, PodId};
pub use progress::Progress;
