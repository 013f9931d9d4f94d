//! One run on one donor: begun, or gone on with.

use kiln_kubernetes::{Journal, JournalStore, NodeName, Owner, PoolLease};
use kiln_types::Inspection;
use kiln_prototype::journal::{Entry, Event, Run};
use kiln_prototype::observed::Observed;
use kiln_prototype::run::{Header, RunId};
use kiln_types::{Factory, PoolName};

use crate::carry::Carrier;
use crate::context::Context;
use crate::error::Error;
use crate::gather::{Consent, Gathered};
use crate::header::owner_of;
use crate::news::RunEventKind;
use crate::place::Place;
use crate::report::{RunEnd, Report};
use crate::request::{LEASE, Request, Wish};

/// Closed runs that stay in the journal, for `history` and for usual durations.
const KEPT_RUNS: usize = 20;

/// Makes the nodes of a pool from a copy of this one. A run of the pool that is still open is gone on with instead.
pub async fn update<F: Factory>(context: &Context<F>, request: &Request) -> Result<Report, Error> {
    let node = context.cluster.node(&request.node).await?;
    let place = Place::of(&node)?;
    let seat = Seat::new(context, &place.pool);
    if open_run(&seat.store.load().await?)?.is_some() {
        return seat.hold(Box::pin(seat.go_on())).await;
    }
    let run = context.fresh();
    let gathered = Box::pin(Gathered::read(context, &node, &place, consent(&request.wish), &run)).await?;
    let (refusals, notes) = (gathered.refusals(), gathered.warnings());
    if !refusals.is_empty() {
        let (pool, node) = (place.pool, node.name);
        return Ok(Report { pool, node, run: None, ending: RunEnd::Refused(refusals), notes });
    }
    let header = gathered.header(context, &node, &request.wish, &run)?;
    let seen = Observed { refusals: Some(refusals), pool: Some(gathered.pool), ..Observed::default() };
    let fresh = Fresh { run, header, seen, inside: gathered.inside.ok(), notes };
    seat.hold(Box::pin(seat.begin(fresh))).await
}

/// Goes on with the open run of a pool.
pub async fn resume<F: Factory>(context: &Context<F>, pool: &PoolName) -> Result<Report, Error> {
    let seat = Seat::new(context, pool);
    if open_run(&seat.store.load().await?)?.is_none() {
        return Err(Error::NothingOpen(pool.clone()));
    }
    seat.hold(Box::pin(seat.go_on())).await
}

/// Whether a run of the pool waits to be gone on with.
pub(crate) async fn is_open<F: Factory>(context: &Context<F>, pool: &PoolName) -> Result<bool, Error> {
    Ok(open_run(&Seat::new(context, pool).store.load().await?)?.is_some())
}

fn consent(wish: &Wish) -> Consent {
    Consent { force: wish.policy.force, allow_empty_pool: wish.allow_empty_pool, no_original: wish.no_original }
}

/// A run that is about to begin.
struct Fresh {
    run: RunId,
    header: Header,
    seen: Observed,
    inside: Option<Inspection>,
    notes: Vec<String>,
}

/// The last run of a journal, if nobody ended it.
fn open_run(journal: &Journal<Entry>) -> Result<Option<Run>, Error> {
    Ok(Run::replay(journal.entries())?.pop().filter(|run| run.closed.is_none()))
}

/// The place from which one process works on a pool.
struct Seat<'a, F> {
    context: &'a Context<F>,
    pool: PoolName,
    lease: PoolLease,
    store: JournalStore<Entry>,
}

impl<'a, F: Factory> Seat<'a, F> {
    fn new(context: &'a Context<F>, pool: &PoolName) -> Self {
        let holder = holder(&context.who, &context.fresh());
        let lease = PoolLease::new(&context.cluster, &context.namespace, pool, holder.clone(), LEASE);
        let store = JournalStore::new(&context.cluster, &context.namespace, pool, holder);
        Self { context, pool: pool.clone(), lease, store }
    }

    /// Works while the pool is ours alone. Losing it ends the work at once, wherever it is; the end of the work gives it up.
    async fn hold(&self, work: impl Future<Output = Result<Report, Error>>) -> Result<Report, Error> {
        // A holder that died is waited for; one that lives is seen to renew.
        match self.lease.take(LEASE + LEASE / 4).await {
            Ok(_) => {}
            Err(kiln_kubernetes::Error::LeaseHeld { by, .. }) => {
                return Err(Error::Busy { pool: self.pool.clone(), by });
            }
            Err(error) => return Err(error.into()),
        }
        self.context.tell(&self.pool, None, RunEventKind::Leased).await;
        let done = tokio::select! {
            lost = self.lease.keep() => Err(Error::Interrupted { pool: self.pool.clone(), source: lost }),
            done = work => done,
        };
        if let Err(error) = self.lease.give_up().await {
            let note = format!("the lease of the pool ends by itself, it could not be given up: {error}");
            self.context.tell(&self.pool, None, RunEventKind::Note(note)).await;
        }
        done
    }

    /// Opens the run, unless somebody opened one since we looked.
    async fn begin(&self, fresh: Fresh) -> Result<Report, Error> {
        let Fresh { run, header, seen, inside, notes } = fresh;
        let mut journal = self.store.load().await?;
        if open_run(&journal)?.is_some() {
            return Box::pin(self.go_on()).await;
        }
        let at = self.context.now();
        let event = Event::Opened { header: Box::new(header.clone()) };
        let mut entries = trimmed(journal.entries());
        entries.push(Entry { run: run.clone(), at, event: event.clone() });
        self.store.save(&mut journal, entries).await?;
        self.context.tell(&self.pool, Some(&run), RunEventKind::Recorded(event)).await;
        let mut carrier = self.carrier(Run::open(run, header)?, journal, seen, inside)?;
        for note in notes {
            carrier.note(note).await;
        }
        Box::pin(carrier.carry()).await
    }

    async fn go_on(&self) -> Result<Report, Error> {
        let journal = self.store.load().await?;
        let run = open_run(&journal)?.ok_or_else(|| Error::NothingOpen(self.pool.clone()))?;
        let mut carrier = self.carrier(run, journal, Observed::default(), None)?;
        carrier.record(Event::Resumed { who: self.context.who.clone() }).await?;
        Box::pin(carrier.carry()).await
    }

    fn carrier(
        &self,
        run: Run,
        journal: Journal<Entry>,
        seen: Observed,
        inspection: Option<Inspection>,
    ) -> Result<Carrier<'_, F>, Error> {
        let node = NodeName::try_from(run.header.donor.node.clone()).map_err(Error::BadNode)?;
        Ok(Carrier {
            context: self.context,
            owner: owner_of(&run.id),
            run,
            node,
            store: &self.store,
            journal,
            lease: &self.lease,
            seen,
            inspection,
            canary: None,
            notes: Vec::new(),
        })
    }
}

/// Who holds a lease, for people to read, and unlike anybody else.
fn holder(who: &str, id: &RunId) -> Owner {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.:".contains(c) { c } else { '-' };
    // As much as an owner's name has room for.
    let who: String = who.chars().map(plain).take(64).collect();
    format!("{who}/{id}").parse().expect("plain characters are an owner")
}

/// Without the oldest closed runs.
fn trimmed(entries: &[Entry]) -> Vec<Entry> {
    let opened = |entry: &&Entry| matches!(entry.event, Event::Opened { .. });
    let runs: Vec<&RunId> = entries.iter().filter(opened).map(|entry| &entry.run).collect();
    // One more is about to be opened.
    let gone = &runs[..runs.len().saturating_sub(KEPT_RUNS - 1)];
    entries.iter().filter(|entry| !gone.contains(&&entry.run)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use kiln_prototype::journal::{Outcome, StepFailure};
    use kiln_prototype::step::Step;
    use kiln_types::ErrorClass;

    use super::*;

    fn entries(runs: usize) -> Vec<Entry> {
        let failure = StepFailure::new(ErrorClass::Quota, "no quota");
        let golden = include_str!("../../core/prototype/tests/engine/golden.jsonl");
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
    fn the_journal_keeps_the_last_runs_and_has_room_for_one_more() {
        assert_eq!(trimmed(&entries(KEPT_RUNS - 1)).len(), 2 * (KEPT_RUNS - 1));
        let kept = trimmed(&entries(KEPT_RUNS + 5));
        assert_eq!(kept.len(), 2 * (KEPT_RUNS - 1));
        assert_eq!(kept.last().unwrap().run.as_str(), format!("r{}", KEPT_RUNS + 4));
        assert!(Run::replay(&kept).is_ok(), "no entry is left of a run that is gone");
    }

    #[test]
    fn a_holder_is_told_by_who_it_is_whatever_that_is_written_like() {
        let holder = |who: &str| holder(who, &"r1".parse().unwrap()).to_string();
        assert_eq!(holder("alice@host.example"), "alice-host.example/r1");
        assert_eq!(holder(&"ü".repeat(200)).len(), 64 + "/r1".len());
    }
}
