//! The drivers: the only code between decisions ([`kiln_prototype`], [`kiln_bootstrap`]) and edges. The command line, Jobs in the cluster
//! and the operator call it.
//!
//! The crate is organised by operation, and each folder's `mod.rs` shows how the operation works:
//!
//! - `run`: one run of the prototype operation, started, resumed or chosen for all pools. The loop is in `run/mod.rs`.
//! - `rollback` and `refresh`: what people do with the versions that runs created. `repair`, `gc` and `release`: what
//!   they do with a full journal, with what runs left over, and with a node whose run no longer exists.
//! - `push`: delivers a NodeConfig by user data, in waves.
//! - `query`: what only reads: status, history, plan, diff and access.
//! - [`operator`]: the operator of the fleet, which changes nodes in waves.
//! - [`launch`] and [`detect`]: single machines, and the settings that can be detected for them.
//!
//! They share a [`Context`] with the edges, the clock and the [`EventSink`], the way pools are read (`pools.rs`) and one [`Error`].
//! Nothing here reads a clock or draws a random number: both come in with the [`Context`].

mod context;
pub mod detect;
mod drain;
mod error;
mod event;
mod gc;
mod inspector;
pub mod launch;
pub mod operator;
mod pools;
mod push;
mod query;
mod refresh;
mod release;
mod repair;
mod rollback;
mod run;
mod stop;

pub use context::{Clock, Context, Ids};
pub use error::Error;
pub use event::{DiscardEvents, EventSink, RunEvent, RunEventKind};
pub use gc::{GcReport, gc};
pub use inspector::NodeInspector;
pub use pools::PoolReading;
pub use push::{PushOutcome, PushRefusal, PushReport, PushRequest, push};
pub use query::{
    AccessReport, AccessRow, OpenRun, PlanReport, PoolHistory, PoolStatus, RunSummary, Side, StatusReport, StepSummary,
    check_access, compare, history, plan, status,
};
pub use refresh::{RefreshReport, RefreshRequest, refresh};
pub use release::{ReleaseReport, release};
pub use repair::{RepairReport, repair};
pub use rollback::{CancelledRun, RollbackReport, rollback, unpause};
pub use run::{
    AutoRequest, LEASE, PARALLEL, PoolOutcome, PoolReport, RunEnd, RunReport, RunRequest, auto_update, resume, update,
};
pub use stop::{Stop, Stopper};
