//! One run of the prototype operation.
//!
//! [`update`] starts a run and [`resume`] continues one, from any machine: both end in [`Runner::drive`], which repeats the same loop
//! until the run is over.
//!
//! ```text
//! lease    session.rs    only the holder of the pool's Lease works on it; losing it ends the run on the spot
//!   observe   observe.rs    read what the decision needs from the cloud and the cluster
//!   decide    kiln_prototype::decide::next    pure
//!   journal   journal.rs    record `Started` before the action and what came of it afterwards
//!   act       act.rs        one request to the cloud or the cluster
//!   wait      wait.rs       for an operation, a node, or a pause
//!   live      live.rs       the snapshot of a running donor: freeze, act and thaw within seconds
//! ```
//!
//! Write-ahead order: the lease is checked, then `Started` is stored, then the request is sent, then its handle is stored. A process that
//! dies in between leaves a journal that records what *may* have happened; the next process reads the resources and continues. If the
//! journal cannot be written, the run stops at once, because an unrecorded action must not be followed by another.
//!
//! Before the loop, `preflight.rs` collects everything that could block the run and `header.rs` fixes what does not change later.
//! `auto.rs` chooses donors for all pools.

mod act;
mod auto;
mod header;
mod inspect;
mod instance_ref;
mod journal;
mod live;
mod observe;
mod preflight;
mod report;
mod request;
mod session;
mod wait;

pub use auto::{AutoRequest, PARALLEL, PoolOutcome, PoolReport, auto_update};
pub use report::{RunEnd, RunReport};
pub use request::{LEASE, RunRequest};

pub(crate) use instance_ref::InstanceRef;
pub(crate) use journal::JOURNAL_BUDGET;
pub(crate) use preflight::PreflightFacts;
pub(crate) use report::list;
pub(crate) use session::PoolSession;

use jiff::Timestamp;
use kiln_kubernetes::{Journal, JournalStore, Owner, PoolLease};
use kiln_prototype::decide::{Decision, current_step, next};
use kiln_prototype::journal::{Entry, Event, Outcome, Run, StepFailure};
use kiln_prototype::observed::Observed;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{ErrorClass, Factory, Inspection, NodeName, PoolName};

use crate::context::Context;
use crate::error::Error;
use session::NewRun;

/// Starts a run with this node as its donor. If the pool has an open run, that run is resumed instead.
pub async fn update<F: Factory>(context: &Context<F>, request: &RunRequest) -> Result<RunReport, Error> {
    let node = context.cluster.node(&request.node).await?;
    let donor = InstanceRef::of(&node)?;
    let session = PoolSession::new(context, &donor.pool);
    if session.has_open_run().await? {
        return session.with_lease(Box::pin(session.resume())).await;
    }
    let id = context.new_id();
    let facts = Box::pin(PreflightFacts::read(context, &node, &donor, &request.options, &id)).await?;
    let (blockers, notes) = (facts.blockers(), facts.warnings());
    if !blockers.is_empty() {
        let (pool, node) = (donor.pool, node.name);
        return Ok(RunReport { pool, node, run: None, end: RunEnd::Refused(blockers), notes });
    }
    let header = facts.header(context, &node, &request.options, &id)?;
    let observed = facts.observed(&header, blockers);
    let new = NewRun { id, header, observed, inspection: facts.inspection.ok(), notes };
    session.with_lease(Box::pin(session.begin(new))).await
}

/// Resumes the open run of a pool, with the options that it was started with.
pub async fn resume<F: Factory>(context: &Context<F>, pool: &PoolName) -> Result<RunReport, Error> {
    let session = PoolSession::new(context, pool);
    if !session.has_open_run().await? {
        return Err(Error::NoOpenRun(pool.clone()));
    }
    session.with_lease(Box::pin(session.resume())).await
}

/// A run in progress, with everything that its loop needs.
struct Runner<'a, F> {
    context: &'a Context<F>,
    run: Run,
    /// The run's id, as it appears on nodes and pods.
    owner: Owner,
    node: NodeName,
    store: &'a JournalStore<Entry>,
    journal: Journal<Entry>,
    lease: &'a PoolLease,
    observed: Observed,
    inspection: Option<Inspection>,
    /// The canary's node, once its instance exists.
    canary: Option<CanaryNode>,
    /// Whether this process has created the canary.
    created_canary: bool,
    notes: Vec<String>,
}

/// The canary's node.
#[derive(Clone)]
struct CanaryNode {
    name: String,
    /// When this process first saw it registered. The creation time of the Node has the clock of the API server.
    registered: Option<Timestamp>,
    /// When this process first saw it Ready, and since when it has been Ready by its own clock. If the latter changes, it was not Ready in
    /// between.
    ready: Option<(Timestamp, Option<Timestamp>)>,
}

impl CanaryNode {
    fn new(name: String, registered: Option<Timestamp>) -> Self {
        Self { name, registered, ready: None }
    }
}

impl<F: Factory> Runner<'_, F> {
    /// Drives the run until it is over, stuck or stopped.
    async fn drive(mut self) -> Result<RunReport, Error> {
        loop {
            if self.context.stop.is_requested() {
                match self.on_stop() {
                    OnStop::StopAt(step) => {
                        let holds = self.run.holds();
                        return Ok(self.report(RunEnd::Stopped { step, holds }));
                    }
                    OnStop::Fail(step) => {
                        let failure = StepFailure::new(ErrorClass::Refused, "cancelled");
                        self.record(Event::Failed { step, failure, permanent: true }).await?;
                    }
                    OnStop::Continue => {}
                }
            }
            match next(&self.run, &self.observed, self.context.now()) {
                // Boxed because each of these futures is large and only one is awaited at a time.
                Decision::Read(facts) => Box::pin(self.observe(facts)).await?,
                Decision::Record(event) => self.record(event).await?,
                Decision::Act { step, action, memo } => Box::pin(self.act(step, action, memo)).await?,
                Decision::Release { hold, action } => Box::pin(self.act(hold.released_by(), action, None)).await?,
                Decision::Wait(wait) => Box::pin(self.wait(wait)).await?,
                Decision::Done(outcome) => return Ok(self.report(RunEnd::Closed(outcome))),
                Decision::Stuck(stuck) => return Ok(self.report(RunEnd::Stuck(stuck))),
                Decision::Refuse(blockers) => {
                    // Only for a run that died before its preflight was recorded. It has changed nothing.
                    let failure = StepFailure::new(ErrorClass::Refused, blockers.join("; "));
                    let outcome = Outcome::Failed { step: Step::Preflight, failure };
                    self.record(Event::Closed { outcome }).await?;
                    return Ok(self.report(RunEnd::Refused(blockers)));
                }
            }
        }
    }

    fn on_stop(&self) -> OnStop {
        let Some(step) = current_step(&self.run) else { return OnStop::Continue };
        let away = [Hold::Node, Hold::Protection, Hold::Absence, Hold::Power, Hold::Frozen];
        if self.run.failed.is_some() {
            OnStop::Continue
        } else if step.is_up_to_snapshot() {
            OnStop::Fail(step)
        } else if self.run.holds().iter().any(|hold| away.contains(hold)) {
            OnStop::Continue
        } else {
            OnStop::StopAt(step)
        }
    }

    fn report(self, end: RunEnd) -> RunReport {
        let (pool, run) = (self.run.header.pool.clone(), Some(self.run.id));
        RunReport { pool, node: self.node, run, end, notes: self.notes }
    }
}

/// How to handle a request to stop.
enum OnStop {
    /// The snapshot does not exist yet: fail the step, which releases all holds.
    Fail(Step),
    /// The donor is away, or the run is releasing its holds: finish that first.
    Continue,
    /// Stop here and leave the run open.
    StopAt(Step),
}
