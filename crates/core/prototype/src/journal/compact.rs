//! Keeps a journal small: what its size is made of, and which entries can be dropped.
//!
//! The handle of an operation is several kilobytes long on Azure, because the URL in it is signed, and the cloud needs it only until the
//! operation has ended. A journal that kept all handles would reach the size limit of its storage after two weeks of nightly runs, and a
//! run that cannot write its journal cannot release its holds.
//!
//! Compaction works on an [`Outline`] of each entry. Kinds, runs and steps are named alike in schemas 1 and 2, so it also applies to the
//! journal of an older kiln, whose entries this kiln cannot replay.

use std::collections::{BTreeMap, BTreeSet};

use kiln_types::ErrorClass;
use serde::Serialize;
use serde_json::Value;

use super::{Entry, Event};

/// The part of an entry that compaction needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    run: String,
    kind: Kind,
    /// In its line, with the line break.
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Opened,
    Resumed,
    Started { step: String, has_memo: bool },
    Accepted { step: String },
    Succeeded { step: String },
    Failed { step: String, is_needed: bool },
    Closed,
}

impl Outline {
    /// The outline of an entry.
    pub fn new(entry: &Entry) -> Self {
        let kind = match &entry.event {
            Event::Opened { .. } => Kind::Opened,
            Event::Resumed { .. } => Kind::Resumed,
            Event::Started { step, memo } => Kind::Started { step: step.to_string(), has_memo: memo.is_some() },
            Event::Accepted { step, .. } => Kind::Accepted { step: step.to_string() },
            Event::Succeeded { step, .. } => Kind::Succeeded { step: step.to_string() },
            Event::Failed { step, failure, permanent } => {
                Kind::Failed { step: step.to_string(), is_needed: is_needed(*permanent, failure.class) }
            }
            Event::Closed { .. } => Kind::Closed,
        };
        let bytes = serde_json::to_string(entry).map_or(0, |line| line.len() + 1);
        Self { run: entry.run.to_string(), kind, bytes }
    }

    /// The outline of a stored line of schema 1 or 2; none if it is neither.
    pub fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let run = value["run"].as_str()?.to_owned();
        let step = || value["step"].as_str().map(str::to_owned);
        let kind = match value["event"].as_str()? {
            "opened" => Kind::Opened,
            "resumed" => Kind::Resumed,
            "started" => Kind::Started { step: step()?, has_memo: !value["memo"].is_null() },
            "accepted" => Kind::Accepted { step: step()? },
            "succeeded" => Kind::Succeeded { step: step()? },
            "failed" => {
                // Schema 1 has another name for `permanent`.
                let permanent = value["permanent"].as_bool().or_else(|| value["forGood"].as_bool())?;
                // A class that is not known here may select a fallback, too.
                let class = serde_json::from_value(value["failure"]["class"].clone());
                let is_needed = class.map_or(true, |class| is_needed(permanent, class));
                Kind::Failed { step: step()?, is_needed }
            }
            "closed" => Kind::Closed,
            _ => return None,
        };
        Some(Self { run, kind, bytes: line.len() + 1 })
    }
}

/// Whether decisions depend on a failure after its run was resumed: it ended the run, or it selects a fallback.
fn is_needed(permanent: bool, class: ErrorClass) -> bool {
    permanent || class == ErrorClass::StorageUnsupported
}

/// What compaction keeps of a journal, and what it drops.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// Whether to keep each entry.
    #[serde(skip)]
    pub keep: Vec<bool>,
    pub bytes_before: usize,
    pub bytes_after: usize,
    /// Handles of operations whose step or attempt has ended.
    pub handles: usize,
    /// Closed runs, oldest first.
    pub runs: Vec<String>,
    /// Attempts of an open run from before it was last resumed.
    pub attempts: usize,
}

impl Compaction {
    /// Decides what to keep, so that the journal has at most `budget` bytes if possible.
    ///
    /// Handles of ended operations always go. If the rest is too large, closed runs go, oldest first, and then the attempts of an open run
    /// from before it was last resumed. What remains replays to the same open run, without those attempts.
    pub fn new(outlines: &[Outline], budget: usize) -> Self {
        let bytes_before: usize = outlines.iter().map(|outline| outline.bytes).sum();
        let mut compaction =
            Self { keep: vec![true; outlines.len()], bytes_before, bytes_after: bytes_before, ..Self::default() };
        for at in ended_handles(outlines) {
            compaction.handles += usize::from(compaction.drop(outlines, at));
        }
        for run in closed_runs(outlines) {
            if compaction.bytes_after <= budget {
                break;
            }
            for at in (0..outlines.len()).filter(|at| outlines[*at].run == run) {
                compaction.drop(outlines, at);
            }
            compaction.runs.push(run.to_owned());
        }
        if compaction.bytes_after > budget {
            for at in superseded(outlines) {
                compaction.attempts += usize::from(compaction.drop(outlines, at));
            }
        }
        compaction
    }

    /// Whether every entry is kept.
    pub fn is_empty(&self) -> bool {
        self.keep.iter().all(|keep| *keep)
    }

    /// The entries, or their lines, that are kept.
    pub fn apply<T>(&self, entries: impl IntoIterator<Item = T>) -> Vec<T> {
        entries.into_iter().zip(&self.keep).filter(|(_, keep)| **keep).map(|(entry, _)| entry).collect()
    }

    fn drop(&mut self, outlines: &[Outline], at: usize) -> bool {
        let dropped = std::mem::replace(&mut self.keep[at], false);
        self.bytes_after -= if dropped { outlines[at].bytes } else { 0 };
        dropped
    }
}

/// The entries without what compaction drops.
pub fn compact(entries: Vec<Entry>, budget: usize) -> Vec<Entry> {
    let outlines: Vec<Outline> = entries.iter().map(Outline::new).collect();
    Compaction::new(&outlines, budget).apply(entries)
}

/// Handles that no process needs: their step has ended or was started again, or their run is closed.
fn ended_handles(outlines: &[Outline]) -> Vec<usize> {
    let mut running: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut ended = Vec::new();
    for (at, Outline { run, kind, .. }) in outlines.iter().enumerate() {
        match kind {
            Kind::Accepted { step } => ended.extend(running.insert((run, step), at)),
            Kind::Started { step, .. } | Kind::Succeeded { step } | Kind::Failed { step, .. } => {
                ended.extend(running.remove(&(run.as_str(), step.as_str())));
            }
            Kind::Closed => {
                ended.extend(running.iter().filter(|((of, _), _)| of == run).map(|(_, at)| *at));
                running.retain(|(of, _), _| of != run);
            }
            Kind::Opened | Kind::Resumed => {}
        }
    }
    ended
}

/// Closed runs, oldest first, without the last run: it shows why the pool is in its state.
fn closed_runs(outlines: &[Outline]) -> Vec<&str> {
    let runs = |kind: Kind| outlines.iter().filter(move |outline| outline.kind == kind).map(|one| one.run.as_str());
    let closed: BTreeSet<&str> = runs(Kind::Closed).collect();
    let mut opened: Vec<&str> = runs(Kind::Opened).collect();
    opened.pop();
    opened.retain(|run| closed.contains(run));
    opened
}

/// Entries from before a run was last resumed whose effect on the run is the same as that of a later entry. Of each step remain its first
/// start, its last start with a memo, its last start and its last failure.
fn superseded(outlines: &[Outline]) -> Vec<usize> {
    let mut resumed: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, outline) in outlines.iter().enumerate().filter(|(_, outline)| outline.kind == Kind::Resumed) {
        resumed.insert(&outline.run, at);
    }
    let mut needed: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let before = |at: usize, run: &str| resumed.get(run).is_some_and(|resumed| at < *resumed);
    for (at, Outline { run, kind, .. }) in outlines.iter().enumerate().filter(|(at, one)| before(*at, &one.run)) {
        match kind {
            Kind::Started { step, has_memo } => {
                needed.entry((run, step, "first start")).or_insert(at);
                needed.insert((run, step, "last start"), at);
                if *has_memo {
                    needed.insert((run, step, "last memo"), at);
                }
            }
            Kind::Failed { step, .. } => _ = needed.insert((run, step, "last failure"), at),
            _ => {}
        }
    }
    let needed: BTreeSet<usize> = needed.into_values().collect();
    let is_superseded = |(at, outline): &(usize, &Outline)| {
        let kind = matches!(outline.kind, Kind::Resumed | Kind::Started { .. } | Kind::Failed { is_needed: false, .. });
        kind && before(*at, &outline.run) && !needed.contains(at)
    };
    outlines.iter().enumerate().filter(is_superseded).map(|(at, _)| at).collect()
}
