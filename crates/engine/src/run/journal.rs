//! Recording events in the journal and sending them to the event sink.

use kiln_prototype::decide::event_after_failure;
use kiln_prototype::journal::{Entry, Event, StepFailure};
use kiln_prototype::observed::Observed;
use kiln_prototype::step::Step;
use kiln_types::Factory;

use super::Runner;
use crate::error::Error;
use crate::event::RunEventKind;

impl<F: Factory> Runner<'_, F> {
    /// Appends an event to the journal. Journal, event sink and the run's state get the same timestamp.
    ///
    /// If the write fails, the run stops here: another process could not know what happened next.
    pub(super) async fn record(&mut self, event: Event) -> Result<(), Error> {
        let at = self.context.now();
        let entry = Entry { run: self.run.id.clone(), at, event: event.clone() };
        self.store.append(&mut self.journal, entry).await.map_err(|error| self.interrupted(error))?;
        self.run.apply(at, &event);
        let pool = &self.run.header.pool;
        self.context.emit_at(at, pool, Some(&self.run.id), RunEventKind::Recorded(event)).await;
        Ok(())
    }

    /// Records that an action or a read failed, and forgets everything that was read before.
    pub(super) async fn fail(&mut self, step: Step, failure: StepFailure) -> Result<(), Error> {
        self.observed = Observed::default();
        self.record(event_after_failure(&self.run, step, failure)).await
    }

    pub(super) async fn emit(&self, kind: RunEventKind) {
        self.context.emit(&self.run.header.pool, Some(&self.run.id), kind).await;
    }

    /// Adds a note to the report.
    pub(super) async fn note(&mut self, text: String) {
        self.notes.push(text.clone());
        self.emit(RunEventKind::Note(text)).await;
    }

    pub(super) fn interrupted(&self, source: kiln_kubernetes::Error) -> Error {
        Error::Interrupted { pool: self.run.header.pool.clone(), source }
    }
}
