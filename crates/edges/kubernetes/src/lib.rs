//! The Kubernetes edge: nodes held with their owner and earlier state, drain, the lease of a pool, and the journal in a `ConfigMap`.
//!
//! Decisions are functions over values ([`drain::decide`], [`drain::judge`]); [`Cluster`] does what they say. Nothing here reads the
//! clock of the machine or draws random numbers: time is tokio's, the rest comes in by [`ClusterOptions`]. No request is repeated below
//! this crate, so that what a 429 means is decided here ([`connect`]).

mod access;
mod call;
mod connect;
pub mod drain;
mod endpoint;
mod error;
mod event;
mod facts;
mod journal;
mod lease;
mod list;
mod name;
mod node;
mod original;
pub mod rbac;
mod rival;
mod survey;
mod task;

pub use access::Access;
pub use call::{Cluster, ClusterOptions, Spread, WallClock};
pub use connect::connect;
pub use endpoint::Endpoint;
pub use error::{Answer, Error};
pub use event::{EventKind, NodeEvent};
pub use facts::FactsStore;
pub use journal::{Journal, JournalStore};
pub use kiln_types::BadName;
pub use lease::{Held, PoolLease};
pub use name::{Namespace, NodeName, Owner};
pub use node::{AUTOSCALER_ANNOTATION, BadProviderId, HOLD_ANNOTATION, HoldWhat, NodeHold, ProviderId, ReadyWhen};
pub use original::{Kept, OriginalRecipe, OriginalStore};
pub use rival::{Rival, RivalKind};
pub use survey::KarpenterKind;
pub use task::{
    Inspector, PodInspector, RESULT_ANNOTATION, RESULT_KEY, RUN_ANNOTATION, SECRET_RESULT_ANNOTATION,
    SECRET_RESULT_KEY, SIMULATED_ANNOTATION, TASK_LABEL, Task, task_pod,
};
