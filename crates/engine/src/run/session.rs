//! Exclusive work of one process on one pool: its lease and its journal.

use kiln_kubernetes::{Journal, JournalStore, Owner, PoolLease};
use kiln_prototype::decide::event_to_cancel;
use kiln_prototype::journal::{Entry, Event, Run, compact};
use kiln_prototype::observed::Observed;
use kiln_prototype::rollback::{Pause, new_pause};
use kiln_prototype::run::{Header, RunId};
use kiln_types::{Factory, Inspection, PoolName};

use super::header::owner_of;
use super::journal::{JOURNAL_BUDGET, room};
use super::{LEASE, RunReport, Runner};
use crate::context::Context;
use crate::error::Error;
use crate::event::RunEventKind;

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
pub(crate) struct PoolSession<'a, F> {
    context: &'a Context<F>,
    pool: PoolName,
    lease: PoolLease,
    store: JournalStore<Entry>,
}

impl<'a, F: Factory> PoolSession<'a, F> {
    pub(crate) fn new(context: &'a Context<F>, pool: &PoolName) -> Self {
        let holder = holder(&context.who, &context.new_id());
        let lease = PoolLease::new(&context.cluster, &context.namespace, pool, holder.clone(), LEASE);
        let store = JournalStore::new(&context.cluster, &context.namespace, pool, holder);
        Self { context, pool: pool.clone(), lease, store }
    }

    pub(super) async fn has_open_run(&self) -> Result<bool, Error> {
        Ok(open_run(&self.store.load().await?)?.is_some())
    }

    /// Works while this process has the pool's lease. Losing the lease ends the work at once; the end of the work gives the lease up.
    pub(crate) async fn with_lease<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        // Long enough for the lease of a dead process to expire. A living one renews it meanwhile.
        match self.lease.acquire(LEASE + LEASE / 4).await {
            Ok(_) => {}
            Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => {
                return Err(Error::Busy { pool: self.pool.clone(), by });
            }
            Err(error) => return Err(error.into()),
        }
        self.while_leased(work).await
    }

    /// Like [`Self::with_lease`], but takes the lease from a process that works on the pool. The work begins when that process has stopped.
    pub(crate) async fn with_lease_taken<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let previous = self.lease.take_over().await?;
        self.while_leased(async {
            if let Some(previous) = previous {
                let note = format!("stopping the work of `{previous}` on the pool, which takes {} s", LEASE.as_secs());
                self.context.emit(&self.pool, None, RunEventKind::Note(note)).await;
                tokio::time::sleep(LEASE).await;
            }
            work.await
        })
        .await
    }

    async fn while_leased<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
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
        let entry = Entry { run: id.clone(), at, event: event.clone() };
        let entries = journal.entries().iter().cloned().chain([entry]).collect();
        self.store.save(&mut journal, compact(entries, JOURNAL_BUDGET), room(&event)).await?;
        self.context.emit_at(at, &self.pool, Some(&id), RunEventKind::Recorded(event)).await;
        let mut runner = self.runner(Run::open(id, header), journal, observed, inspection);
        for note in notes {
            runner.note(note).await;
        }
        Box::pin(runner.drive()).await
    }

    /// Resumes the open run. If the pool was paused since the run opened, the run only releases its holds.
    pub(crate) async fn resume(&self) -> Result<RunReport, Error> {
        let journal = self.store.load().await?;
        let run = open_run(&journal)?.ok_or_else(|| Error::NoOpenRun(self.pool.clone()))?;
        self.check_gallery(&run)?;
        let pause = self.pause_since(&run).await;
        let mut runner = self.runner(run, journal, Observed::default(), None);
        runner.record(Event::Resumed { who: self.context.who.clone() }).await?;
        if let Some(pause) = pause
            && let Some(event) = event_to_cancel(&runner.run, format!("cancelled: the pool is {pause}"))
        {
            runner.record(event).await?;
        }
        Box::pin(runner.drive()).await
    }

    /// Cancels the open run, if there is one: the process that resumes it only releases its holds.
    pub(crate) async fn cancel(&self, reason: &str) -> Result<Option<Run>, Error> {
        let journal = self.store.load().await?;
        let Some(run) = open_run(&journal)? else { return Ok(None) };
        self.check_gallery(&run)?;
        let mut runner = self.runner(run, journal, Observed::default(), None);
        if let Some(event) = event_to_cancel(&runner.run, reason) {
            runner.record(event).await?;
        }
        Ok(Some(runner.run))
    }

    /// Fails if this process looks for galleries in another place than the run. It would create a second gallery.
    fn check_gallery(&self, run: &Run) -> Result<(), Error> {
        let (recorded, given) = (run.header.gallery_scope.clone(), self.context.factory.gallery_scope());
        if recorded == given {
            return Ok(());
        }
        Err(Error::OtherGallery { pool: self.pool.clone(), recorded, given })
    }

    /// A pause from after the run was opened. If it cannot be read now, the steps that depend on it read it again.
    async fn pause_since(&self, run: &Run) -> Option<Pause> {
        let definition = &run.header.definition;
        let now = self.context.factory.find_definition(&definition.name).await.ok().flatten()?;
        new_pause(&definition.tags, &now.tags)
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
            created_canary: false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_holder_is_named_after_the_user_and_the_run() {
        let holder = |who: &str| holder(who, &"r1".parse().unwrap()).to_string();
        assert_eq!(holder("alice@host.example"), "alice-host.example/r1");
        assert_eq!(holder(&"ü".repeat(200)).len(), 64 + "/r1".len());
    }
}
