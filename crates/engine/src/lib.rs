//! Runs the prototype operation: the only code between decisions ([`kiln_prototype`]) and edges. Command line, Job and operator call it.
//!
//! Nothing here reads a clock or draws a number: both come in by [`Context`].

mod access;
mod act;
mod auto;
mod back;
mod carry;
mod context;
pub mod detect;
mod diff;
mod error;
mod gather;
mod header;
mod history;
mod inside;
mod inspect;
pub mod launch;
mod look;
mod news;
mod node_facts;
mod original;
mod place;
mod plan;
mod prototype;
mod refresh;
mod report;
mod request;
mod side;
mod status;
mod stop;
mod wait;

pub use access::{AccessReport, AccessRow, Side, check_access};
pub use auto::{AutoRequest, PoolOutcome, PARALLEL, PoolReport, auto_update};
pub use back::{RollbackReport, RollbackRequest, unpause, rollback};
pub use context::{Clock, Context, Ids};
pub use diff::compare;
pub use error::Error;
pub use history::{PoolHistory, RunSummary, StepSummary, history};
pub use inside::Inside;
pub use news::{RunEventKind, RunEvent, DiscardEvents, EventSink};
pub use plan::{PlanReport, plan};
pub use prototype::{resume, update};
pub use refresh::{REFRESH_TAG, RefreshReport, RefreshRequest, refresh};
pub use report::{RunEnd, Report};
pub use request::{LEASE, Request, Wish};
pub use side::{Reading, Error};
pub use status::{OpenRun, PoolStatus, StatusReport, status};
pub use stop::{Stop, Stopper};
