//! The next step of a rollout, decided purely: [`next`] takes the Rollout, what the operator observes, and the time. It returns acts and the new status.
//!
//! - [`Policy`] holds the parsed rules, [`Observed`] the observation, [`Decision`] the result.
//! - `turn` derives where each node is; `ledger` counts the places of the budgets; `work` is a decision in progress.
//! - `advance` takes the next step of nodes in flight, `forward` starts waves, `stop` ends a rollout without success.
//! - `replace` and `replace_stop` are the same for rollouts with an image version, which replace nodes by new machines.
//! - [`Schedule`] is the schedule of prototype runs.
//! - `wait` and `report` write the status that people read.
//!
//! The only state is the status of the Rollout and the objects of the nodes, so another operator can repeat each decision.

mod advance;
mod decision;
mod forward;
mod gate;
mod ledger;
mod next;
mod observed;
mod policy;
mod replace;
mod replace_stop;
mod report;
mod schedule;
mod stop;
mod time;
mod turn;
mod wait;
mod wave;
mod window;
mod work;

pub use decision::{Act, Decision, Notice, Severity};
pub use next::next;
pub use observed::{
    DrainState, FreezeObserved, NodeObserved, Observed, PastTurn, PoolObserved, Problem, Reading, ResolvedTarget,
    Rollout,
};
pub use policy::{Policy, PolicyError, Query};
pub use schedule::Schedule;
