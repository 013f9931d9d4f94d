//! Carries a run: asks what is next, does it, writes it down, and asks again.

use kiln_kubernetes::{Journal, JournalStore, NodeName, Owner, PoolLease};
use kiln_types::Inspection;
use kiln_prototype::decide::{Decision, current, failed, next};
use kiln_prototype::journal::{Entry, Event, Outcome, Run, StepFailure};
use kiln_prototype::observed::Observed;
use kiln_prototype::step::{Hold, Step};
use kiln_types::{ErrorClass, Factory};

use crate::context::Context;
use crate::error::Error;
use crate::news::RunEventKind;
use crate::report::{RunEnd, Report};

/// A run in somebody's hands.
pub(crate) struct Carrier<'a, F> {
    pub(crate) context: &'a Context<F>,
    pub(crate) run: Run,
    /// The run as nodes know it.
    pub(crate) owner: Owner,
    pub(crate) node: NodeName,
    pub(crate) store: &'a JournalStore<Entry>,
    pub(crate) journal: Journal<Entry>,
    pub(crate) lease: &'a PoolLease,
    pub(crate) seen: Observed,
    /// What is inside the donor, once somebody looked.
    pub(crate) inspection: Option<Inspection>,
    /// The canary's node, once its machine is there.
    pub(crate) canary: Option<String>,
    pub(crate) notes: Vec<String>,
}

/// What to do about being told to stop.
#[derive(Debug, PartialEq, Eq)]
enum Halt {
    /// Nothing is copied yet: give everything back.
    GiveBack(Step),
    /// The donor is away: bring it back first.
    GoOn,
    /// Stop here; the run stays open.
    Here(Step),
}

impl<F: Factory> Carrier<'_, F> {
    /// Carries the run to its end, or to where it cannot go on.
    pub(crate) async fn carry(mut self) -> Result<Report, Error> {
        loop {
            if self.context.stop.is_told() {
                match self.halt() {
                    Halt::Here(at) => {
                        let held = self.run.holds();
                        return Ok(self.report(RunEnd::Stopped { at, held }));
                    }
                    Halt::GiveBack(step) => {
                        let failure = StepFailure { class: ErrorClass::Refused, message: "cancelled".to_owned() };
                        self.record(Event::Failed { step, failure, for_good: true }).await?;
                    }
                    Halt::GoOn => {}
                }
            }
            match next(&self.run, &self.seen, self.context.now()) {
                // Each of these is large, and only one of them is awaited at a time.
                Decision::Look(facts) => Box::pin(self.look(facts)).await?,
                Decision::Record(event) => self.record(event).await?,
                Decision::Run { step, action, memo } => Box::pin(self.act(step, action, memo)).await?,
                Decision::Release { held, action } => {
                    Box::pin(self.act(held.released_by(), action, None)).await?;
                }
                Decision::Wait(wait) => Box::pin(self.wait(wait)).await?,
                Decision::Done(outcome) => return Ok(self.report(outcome.into())),
                Decision::Stuck(stuck) => return Ok(self.report(RunEnd::Stuck(stuck))),
                Decision::Refuse(reasons) => {
                    // Only a run that died between its first two entries comes here; nothing of it was begun.
                    let failure = StepFailure { class: ErrorClass::Refused, message: reasons.join("; ") };
                    let outcome = Outcome::Failed { step: Step::Preflight, failure };
                    self.record(Event::Closed { outcome }).await?;
                    return Ok(self.report(RunEnd::Refused(reasons)));
                }
            }
        }
    }

    /// Writes down what happened. What cannot be written did not happen, as far as anybody else can know: the run stops here.
    pub(crate) async fn record(&mut self, event: Event) -> Result<(), Error> {
        let entry = Entry { run: self.run.id.clone(), at: self.context.now(), event };
        let (at, event) = (entry.at, entry.event.clone());
        self.store.append(&mut self.journal, entry).await.map_err(|error| self.interrupted(error))?;
        self.run.note(at, &event);
        self.tell(RunEventKind::Recorded(event)).await;
        Ok(())
    }

    /// Writes down that an act or a reading did not work. What was read before is not believed any more.
    pub(crate) async fn fail(&mut self, step: Step, failure: StepFailure) -> Result<(), Error> {
        self.seen = Observed::default();
        self.record(failed(&self.run, step, failure)).await
    }

    pub(crate) async fn tell(&self, what: RunEventKind) {
        self.context.tell(&self.run.header.pool, Some(&self.run.id), what).await;
    }

    /// Says what does not keep the run from going on.
    pub(crate) async fn note(&mut self, text: String) {
        self.notes.push(text.clone());
        self.tell(RunEventKind::Note(text)).await;
    }

    pub(crate) fn interrupted(&self, source: kiln_kubernetes::Error) -> Error {
        Error::Interrupted { pool: self.run.header.pool.clone(), source }
    }

    fn halt(&self) -> Halt {
        let Some(step) = current(&self.run) else { return Halt::GoOn };
        let away = [Hold::Node, Hold::Protection, Hold::Absence, Hold::Power];
        if self.run.failed.is_some() {
            Halt::GoOn
        } else if step.is_up_to_snapshot() {
            Halt::GiveBack(step)
        } else if self.run.holds().iter().any(|held| away.contains(held)) {
            Halt::GoOn
        } else {
            Halt::Here(step)
        }
    }

    fn report(self, ending: RunEnd) -> Report {
        Report {
            pool: self.run.header.pool.clone(),
            node: self.node,
            run: Some(self.run.id),
            ending,
            notes: self.notes,
        }
    }
}
