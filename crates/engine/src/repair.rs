//! Repair: shortens the journals of pools that an older kiln has filled.
//!
//! Every run compacts its journal with each write, so a journal is full only if an older kiln wrote it. The lines are not replayed but
//! dropped or kept as they are: the journal of an older schema stays readable for the kiln that wrote it and can finish its runs.

use std::fmt;

use kiln_kubernetes::{JOURNAL_LIMIT, JournalStore, Room};
use kiln_prototype::journal::{Compaction, Outline};
use kiln_types::{Factory, PoolName};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::run::{JOURNAL_BUDGET, PoolSession};
use crate::{Context, Error};

/// The journal of a pool, before and after its repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    pub pool: PoolName,
    /// Namespace and name of its `ConfigMap`.
    pub journal: String,
    /// `false` if the journal was only read.
    pub done: bool,
    pub limit_bytes: usize,
    pub entries: usize,
    #[serde(flatten)]
    pub compaction: Compaction,
}

/// Decides how the journals of pools can be shortened, and with `apply` shortens them.
pub async fn repair<F: Factory>(
    context: &Context<F>,
    names: &[PoolName],
    apply: bool,
) -> Result<Vec<RepairReport>, Error> {
    let mut reports = Vec::new();
    for pool in context.pools(names).await? {
        let pool = pool.name;
        let mut report = Box::pin(repair_one(context, &pool, false)).await?;
        if apply && !report.compaction.is_empty() {
            let session = PoolSession::new(context, &pool);
            report = session.with_lease(Box::pin(repair_one(context, &pool, true))).await?;
        }
        reports.push(report);
    }
    Ok(reports)
}

async fn repair_one<F: Factory>(context: &Context<F>, pool: &PoolName, apply: bool) -> Result<RepairReport, Error> {
    let store: JournalStore<Box<RawValue>> =
        JournalStore::new(&context.cluster, &context.namespace, pool, context.new_owner());
    let mut journal = store.load().await?;
    let outline = |(index, line): (usize, &RawValue)| {
        let unknown = || Error::JournalEntry { journal: store.to_string(), entry: index + 1 };
        Outline::parse(line.get()).ok_or_else(unknown)
    };
    let outlines = journal.entries().iter().map(Box::as_ref).enumerate().map(outline).collect::<Result<Vec<_>, _>>()?;
    let compaction = Compaction::new(&outlines, JOURNAL_BUDGET);
    if apply {
        let kept = compaction.apply(journal.entries().to_vec());
        store.save(&mut journal, kept, Room::Release).await?;
    }
    Ok(RepairReport {
        pool: pool.clone(),
        journal: store.to_string(),
        done: apply,
        limit_bytes: JOURNAL_LIMIT,
        entries: outlines.len(),
        compaction,
    })
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, journal, done, limit_bytes, entries, compaction } = self;
        let Compaction { bytes_before, bytes_after, handles, runs, attempts, .. } = compaction;
        writeln!(f, "{pool}: journal `{journal}` has {bytes_before} of {limit_bytes} bytes in {entries} entries")?;
        if compaction.is_empty() {
            return writeln!(f, "  nothing to repair");
        }
        let drop = if *done { "dropped" } else { "would drop" };
        let parts = [
            (*handles, "handles of operations that have ended"),
            (runs.len(), "closed runs, the oldest ones"),
            (*attempts, "attempts from before an open run was resumed"),
        ];
        for (count, what) in parts.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "  {drop} {count} {what}")?;
        }
        writeln!(f, "  {bytes_after} bytes {}", if *done { "are left" } else { "would be left" })
    }
}
