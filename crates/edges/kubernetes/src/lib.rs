//! The Kubernetes edge: node holds with owner and previous state, drain, the lease of a pool, and the journal in a `ConfigMap`.
//!
//! Decisions are functions over values ([`drain::decide`], [`drain::classify`]); [`Cluster`] carries them out. This crate reads neither
//! the machine's clock nor random numbers: time is tokio's, everything else comes in through [`ClusterOptions`]. No layer below this
//! crate retries, so that the meaning of a 429 is decided here ([`connect`]).

mod access;
mod canary_secrets;
mod cluster_info;
mod connect;
pub mod drain;
mod endpoint;
mod error;
mod event;
mod fleet;
mod journal;
mod kamino;
mod kured;
mod lease;
mod list;
mod load_balancers;
mod name;
mod node;
mod original;
pub mod rbac;
mod request;
mod settings;
mod skip_store;
mod smoke_test;
mod task;
mod version_records;
mod watch;

pub use access::Access;
pub use cluster_info::KarpenterKind;
pub use connect::connect;
pub use endpoint::Endpoint;
pub use error::{ApiStatus, Error};
pub use event::{EventKind, EventText, NodeEvent};
pub use fleet::{Fleet, FleetKind};
pub use journal::{JOURNAL_LIMIT, JOURNAL_RESERVE, Journal, JournalStore, Room};
pub use kamino::{KaminoJob, KaminoJobKind};
pub use kiln_types::{BadName, BadProviderId, Jitter, ProviderId};
pub use kured::{KURED_LOCK_ANNOTATION, KuredAttempt, KuredLock};
pub use lease::{LeaseTerm, PoolLease};
pub use name::{Namespace, NodeName, Owner};
pub use node::{AUTOSCALER_ANNOTATION, HOLD_ANNOTATION, HoldScope, LOAD_BALANCER_LABEL, NodeHold, ReadyWhen};
pub use original::{OriginalRecipe, OriginalStore, SaveOutcome};
pub use request::{Cluster, ClusterOptions, WallClock};
pub use smoke_test::{SMOKE_TEST_LABEL, SmokePod};
pub use task::{
    Inspector, PodInspector, RESULT_ANNOTATION, RESULT_KEY, RUN_ANNOTATION, SECRET_RESULT_ANNOTATION,
    SECRET_RESULT_KEY, SIMULATED_ANNOTATION, TASK_LABEL, THAW_RESULT_KEY, Task, task_pod,
};
pub use version_records::VersionRecords;
