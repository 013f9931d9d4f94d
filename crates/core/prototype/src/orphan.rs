//! What runs left over: canaries, snapshots and tags that no open run owns.

use std::fmt;

use kiln_types::tags::{CLAIM_TAG, VERSION_TAG};
use kiln_types::{Pool, PoolName, Snapshot, Tags, VersionNumber};
use serde::Serialize;

/// What no run owns any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    pub kind: OrphanKind,
    /// The name of the resource, or of the tag.
    pub name: String,
    pub pool: PoolName,
    /// The run that left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// The kind of something that a run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OrphanKind {
    Canary,
    Snapshot,
    /// The tag of a scale set with its run.
    Tag,
}

/// A pool with what a run may have left.
#[derive(Debug, Clone)]
pub struct Leavings<'a> {
    pub pool: &'a Pool,
    pub canaries: Vec<&'a Pool>,
    pub snapshot: Option<&'a Snapshot>,
    /// The open run of the pool.
    pub open: Option<&'a str>,
    /// The version that a run of today creates. Its snapshot is used again by the next run of today.
    pub today: &'a VersionNumber,
}

impl Leavings<'_> {
    /// What no open run owns.
    pub fn orphans(&self) -> Vec<Orphan> {
        let orphan = |kind, name: &str, tags: &Tags| Orphan {
            kind,
            name: name.to_owned(),
            pool: self.pool.name.clone(),
            run: run_of(tags).map(ToOwned::to_owned),
        };
        let is_owned = |tags: &Tags| self.open.is_some() && run_of(tags) == self.open;
        let canaries = self.canaries.iter().filter(|canary| !is_owned(&canary.tags));
        let mut orphans: Vec<Orphan> =
            canaries.map(|canary| orphan(OrphanKind::Canary, canary.name.as_str(), &canary.tags)).collect();
        let is_left = |snapshot: &&Snapshot| {
            let version = snapshot.tags.get(VERSION_TAG).map(String::as_str);
            self.open.is_none() && version.is_some_and(|version| version != self.today.as_str())
        };
        if let Some(snapshot) = self.snapshot.filter(is_left) {
            orphans.push(orphan(OrphanKind::Snapshot, snapshot.name.as_str(), &snapshot.tags));
        }
        if run_of(&self.pool.tags).is_some() && !is_owned(&self.pool.tags) {
            orphans.push(orphan(OrphanKind::Tag, CLAIM_TAG, &self.pool.tags));
        }
        orphans
    }
}

/// The run in the tags of a resource. An empty tag counts as missing.
fn run_of(tags: &Tags) -> Option<&str> {
    tags.get(CLAIM_TAG).map(String::as_str).filter(|run| !run.is_empty())
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, pool, run } = self;
        match kind {
            OrphanKind::Canary => write!(f, "canary `{name}` of `{pool}`")?,
            OrphanKind::Snapshot => write!(f, "snapshot `{name}`")?,
            OrphanKind::Tag => write!(f, "tag `{name}` of `{pool}`")?,
        }
        match run {
            Some(run) => write!(f, ", left by run {run}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_types::{CANARY_TAG, Provisioning};

    use super::*;
    use crate::sample::{self, tags};

    fn snapshot() -> Snapshot {
        Snapshot {
            name: "snapshot_pool".parse().unwrap(),
            id: String::new(),
            source: None,
            provisioning: Provisioning::Succeeded,
            created: None,
            tags: Tags::new(),
        }
    }

    fn found(open: Option<&str>, today: &str) -> Vec<(OrphanKind, Option<String>)> {
        let pool = Pool { tags: tags([(CLAIM_TAG, "r1")]), ..sample::pool() };
        let canary = Pool { tags: tags([(CLAIM_TAG, "r1"), (CANARY_TAG, "pool")]), ..sample::pool() };
        let snapshot = Snapshot { tags: tags([(CLAIM_TAG, "r1"), (VERSION_TAG, "2026.11.15")]), ..snapshot() };
        let leavings = Leavings {
            pool: &pool,
            canaries: vec![&canary],
            snapshot: Some(&snapshot),
            open,
            today: &today.parse().unwrap(),
        };
        leavings.orphans().into_iter().map(|orphan| (orphan.kind, orphan.run)).collect()
    }

    #[test]
    fn what_the_open_run_owns_is_kept() {
        assert_eq!(found(Some("r1"), "2026.11.16"), []);
    }

    #[test]
    fn what_a_closed_run_left_is_an_orphan() {
        let run = Some("r1".to_owned());
        let all = [OrphanKind::Canary, OrphanKind::Snapshot, OrphanKind::Tag].map(|kind| (kind, run.clone()));
        assert_eq!(found(None, "2026.11.16"), all);
        // The snapshot belongs to the next run, if that is open already.
        let of_earlier = [OrphanKind::Canary, OrphanKind::Tag].map(|kind| (kind, run.clone()));
        assert_eq!(found(Some("r2"), "2026.11.16"), of_earlier);
    }

    #[test]
    fn snapshot_of_today_is_kept_for_the_next_run() {
        assert!(!found(None, "2026.11.15").iter().any(|(kind, _)| *kind == OrphanKind::Snapshot));
    }
}
