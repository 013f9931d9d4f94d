//! Exclusive work of one process on one pool: its lease and its journal.

use kiln_kubernetes::{Journal, JournalStore, Owner, PoolLease};
use kiln_prototype::journal::{Entry, Event, Run};
use kiln_prototype::observed::Observed;
use kiln_prototype::run::{Header, RunId};
use kiln_types::{Factory, Inspection, PoolName};

use super::header::owner_of;
use super::{LEASE, RunReport, Runner};
use crate::context::Context;
use crate::error::Error;
use crate::event::RunEventKind;

/// Closed runs that stay in the journal, for `history` and for expected durations.
const KEPT_RUNS: usize = 20;

/// A run that passed its preflight and is about to open.
pub(super) struct NewRun {
    pub(super) id: RunId,
    pub(super) header: Header,
    pub(super) observed: Observed,
    pub(super) inspection: Option<Inspection>,
    pub(super) notes: Vec<String>,
}

/// The last run of a journal, if it is open.
fn open_run(journal: &Journal<Entry>) -> Result<Option<Run>, Error> {
    Ok(Run::replay(journal.entries())?.pop().filter(|run| run.closed.is_none()))
}

/// One process's access to a pool.
pub(super) struct PoolSession<'a, F> {
    context: &'a Context<F>,
    pool: PoolName,
    lease: PoolLease,
    store: JournalStore<Entry>,
}

impl<'a, F: Factory> PoolSession<'a, F> {
    pub(super) fn new(context: &'a Context<F>, pool: &PoolName) -> Self {
        let holder = holder(&context.who, &context.new_id());
        let lease = PoolLease::new(&context.cluster, &context.namespace, pool, holder.clone(), LEASE);
        let store = JournalStore::new(&context.cluster, &context.namespace, pool, holder);
        Self { context, pool: pool.clone(), lease, store }
    }

    pub(super) async fn has_open_run(&self) -> Result<bool, Error> {
        Ok(open_run(&self.store.load().await?)?.is_some())
    }

    /// Works while this process has the pool's lease. Losing the lease ends the work at once; the end of the work gives the lease up.
    pub(super) async fn with_lease(
        &self,
        work: impl Future<Output = Result<RunReport, Error>>,
    ) -> Result<RunReport, Error> {
        // Long enough for the lease of a dead process to expire. A living one renews it meanwhile.
        match self.lease.acquire(LEASE + LEASE / 4).await {
            Ok(_) => {}
            Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => {
                return Err(Error::Busy { pool: self.pool.clone(), by });
            }
            Err(error) => return Err(error.into()),
        }
        self.context.emit(&self.pool, None, RunEventKind::Leased).await;
        let done = tokio::select! {
            lost = self.lease.keep_renewing() => Err(Error::Interrupted { pool: self.pool.clone(), source: lost }),
            done = work => done,
        };
        if let Err(error) = self.lease.release().await {
            let note = format!("the pool's lease could not be given up and will expire: {error}");
            self.context.emit(&self.pool, None, RunEventKind::Note(note)).await;
        }
        done
    }

    /// Opens a run, unless another process has opened one meanwhile.
    pub(super) async fn begin(&self, new: NewRun) -> Result<RunReport, Error> {
        let NewRun { id, header, observed, inspection, notes } = new;
        let mut journal = self.store.load().await?;
        if open_run(&journal)?.is_some() {
            return Box::pin(self.resume()).await;
        }
        let at = self.context.now();
        let event = Event::Opened { header: Box::new(header.clone()) };
        let mut entries = trimmed(journal.entries());
        entries.push(Entry { run: id.clone(), at, event: event.clone() });
        self.store.save(&mut journal, entries).await?;
        self.context.emit_at(at, &self.pool, Some(&id), RunEventKind::Recorded(event)).await;
        let mut runner = self.runner(Run::open(id, header), journal, observed, inspection);
        for note in notes {
            runner.note(note).await;
        }
        Box::pin(runner.drive()).await
    }

    /// Resumes the open run.
    pub(super) async fn resume(&self) -> Result<RunReport, Error> {
        let journal = self.store.load().await?;
        let run = open_run(&journal)?.ok_or_else(|| Error::NoOpenRun(self.pool.clone()))?;
        let mut runner = self.runner(run, journal, Observed::default(), None);
        runner.record(Event::Resumed { who: self.context.who.clone() }).await?;
        Box::pin(runner.drive()).await
    }

    fn runner(
        &self,
        run: Run,
        journal: Journal<Entry>,
        observed: Observed,
        inspection: Option<Inspection>,
    ) -> Runner<'_, F> {
        Runner {
            context: self.context,
            owner: owner_of(&run.id),
            node: run.header.donor.node.clone(),
            run,
            store: &self.store,
            journal,
            lease: &self.lease,
            observed,
            inspection,
            canary: None,
            notes: Vec::new(),
        }
    }
}

/// The holder of a lease: readable, and unique.
fn holder(who: &str, id: &RunId) -> Owner {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '-' };
    // An owner has at most 128 characters, and the id needs up to 33 of them.
    let who: String = who.chars().map(plain).take(64).collect();
    format!("{who}/{id}").parse().expect("plain characters are an owner")
}

/// The entries without the oldest closed runs, so that there is room for one more run.
fn trimmed(entries: &[Entry]) -> Vec<Entry> {
    let opened = |entry: &&Entry| matches!(entry.event, Event::Opened { .. });
    let runs: Vec<&RunId> = entries.iter().filter(opened).map(|entry| &entry.run).collect();
    let dropped = &runs[..runs.len().saturating_sub(KEPT_RUNS - 1)];
    entries.iter().filter(|entry| !dropped.contains(&&entry.run)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use kiln_prototype::journal::{Outcome, StepFailure};
    use kiln_prototype::step::Step;
    use kiln_types::ErrorClass;

    use super::*;

    fn entries(runs: usize) -> Vec<Entry> {
        let failure = StepFailure::new(ErrorClass::Quota, "no quota");
        let golden = include_str!("../../../core/prototype/tests/engine/golden.jsonl");
        let opened: Entry = golden.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
        assert!(matches!(opened.event, Event::Opened { .. }), "{opened:?}");
        let one = |number: usize| {
            let run: RunId = format!("r{number}").parse().unwrap();
            let outcome = Outcome::Failed { step: Step::Gallery, failure: failure.clone() };
            let closed = Entry { run: run.clone(), at: opened.at, event: Event::Closed { outcome } };
            [Entry { run, ..opened.clone() }, closed]
        };
        (0..runs).flat_map(one).collect()
    }

    #[test]
    fn journal_keeps_the_last_runs_and_has_room_for_one_more() {
        assert_eq!(trimmed(&entries(KEPT_RUNS - 1)).len(), 2 * (KEPT_RUNS - 1));
        let kept = trimmed(&entries(KEPT_RUNS + 5));
        assert_eq!(kept.len(), 2 * (KEPT_RUNS - 1));
        assert_eq!(kept.last().unwrap().run.as_str(), format!("r{}", KEPT_RUNS + 4));
        assert!(Run::replay(&kept).is_ok(), "no entry of a dropped run is left");
    }

    #[test]
    fn lease_holder_is_named_after_the_user_and_the_run() {
        let holder = |who: &str| holder(who, &"r1".parse().unwrap()).to_string();
        assert_eq!(holder("alice@host.example"), "alice-host.example/r1");
        assert_eq!(holder(&"ü".repeat(200)).len(), 64 + "/r1".len());
    }
}
