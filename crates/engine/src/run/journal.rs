//! Recording events in the journal and sending them to the event sink.

use kiln_kubernetes::{JOURNAL_LIMIT, Room};
use kiln_prototype::decide::event_after_failure;
use kiln_prototype::journal::{Entry, Event, Memo, StepFailure, compact};
use kiln_prototype::observed::Observed;
use kiln_prototype::step::Step;
use kiln_types::{ErrorClass, Factory};

use super::Runner;
use crate::error::Error;
use crate::event::RunEventKind;

/// Older runs are dropped above this size, so that the longest run fits twice into the rest.
pub(crate) const JOURNAL_BUDGET: usize = JOURNAL_LIMIT / 2;

/// How much of the journal an event may use. What ends an action, an attempt or a run must be recorded even if the journal is full;
/// without these events the next process could not release the run's holds.
pub(super) fn room(event: &Event) -> Room {
    match event {
        Event::Opened { .. } => Room::Ordinary,
        Event::Started { step, .. } | Event::Failed { step, permanent: false, .. } if step.releases().is_none() => {
            Room::Ordinary
        }
        _ => Room::Release,
    }
}

impl<F: Factory> Runner<'_, F> {
    /// Appends an event to the journal and drops what is no longer needed. Journal, event sink and the run's state get the same timestamp.
    ///
    /// If the write fails, the run stops here: another process could not know what happened next.
    pub(super) async fn record(&mut self, event: Event) -> Result<(), Error> {
        self.store_event(event).await.map_err(|error| self.interrupted(error))
    }

    /// Records that a step starts. Returns `false`, so that no action follows, if the journal has no room for it: the step has failed
    /// instead, and the run releases its holds.
    pub(super) async fn start(&mut self, step: Step, memo: Option<Memo>) -> Result<bool, Error> {
        self.record_or_fail(step, Event::Started { step, memo }).await
    }

    async fn record_or_fail(&mut self, step: Step, event: Event) -> Result<bool, Error> {
        match self.store_event(event).await {
            Ok(()) => Ok(true),
            Err(full @ kiln_kubernetes::Error::JournalTooLarge { .. }) if step.releases().is_none() => {
                let failure = StepFailure::new(ErrorClass::Refused, full.to_string());
                self.record(Event::Failed { step, failure, permanent: true }).await?;
                Ok(false)
            }
            Err(error) => Err(self.interrupted(error)),
        }
    }

    async fn store_event(&mut self, event: Event) -> Result<(), kiln_kubernetes::Error> {
        let at = self.context.now();
        let entry = Entry { run: self.run.id.clone(), at, event: event.clone() };
        let entries = self.journal.entries().iter().cloned().chain([entry]).collect();
        self.store.save(&mut self.journal, compact(entries, JOURNAL_BUDGET), room(&event)).await?;
        self.run.apply(at, &event);
        let pool = &self.run.header.pool;
        self.context.emit_at(at, pool, Some(&self.run.id), RunEventKind::Recorded(event)).await;
        Ok(())
    }

    /// Records that an action or a read failed, and forgets everything that was read before.
    pub(super) async fn fail(&mut self, step: Step, failure: StepFailure) -> Result<(), Error> {
        self.observed = Observed::default();
        let event = event_after_failure(&self.run, step, failure);
        self.record_or_fail(step, event).await.map(drop)
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
