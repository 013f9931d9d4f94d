//! Read-only operations: status, history, plan, diff and access. None of them acquires a lease.

mod access;
mod diff;
mod history;
mod plan;
mod status;

pub use access::{AccessReport, AccessRow, Side, check_access};
pub(crate) use access::{FORCE, check_access_to};
pub use diff::compare;
pub use history::{PoolHistory, RunSummary, StepSummary, history};
pub use plan::{PlanReport, plan};
pub use status::{OpenRun, PoolStatus, StatusReport, status};
