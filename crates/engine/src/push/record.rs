//! The record of a push in the cluster: what was assigned to which node, and what each node had before. It is written before each act, so that a
//! push that was killed is continued by the next one.

use std::collections::BTreeMap;

use kiln_fleet_api::{Desired, RolloutStatus};
use kiln_kubernetes::{Journal, JournalStore, Owner, Room};
use kiln_types::{Factory, InstanceId, NodeCondition, PoolName, sha256_hex};
use serde::{Deserialize, Serialize};

use super::report::PushOutcome;
use crate::{Context, Error};

/// One push of a document to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushRecord {
    /// Digest of the document.
    pub(super) digest: String,
    pub(super) generation: u64,
    /// Who started it.
    pub(super) who: String,
    /// Progress, as in a Rollout.
    pub(super) status: RolloutStatus,
    /// The nodes that have started, by name.
    pub(super) nodes: BTreeMap<String, PushedNode>,
    /// Earlier user data by its hash. It is a NodeConfig or empty: anything else is not overwritten.
    pub(super) earlier: BTreeMap<String, String>,
    /// Whether the failure limit was reached.
    #[serde(default)]
    pub(super) rejected: bool,
    /// How it ended; none while it can be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<PushOutcome>,
}

/// A node that has started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushedNode {
    pub(super) instance: InstanceId,
    pub(super) vm_id: String,
    pub(super) desired: Desired,
    /// Key of its user data in [`PushRecord::earlier`].
    pub(super) earlier: String,
    /// The condition that kilnd had reported before.
    #[serde(default)]
    pub(super) condition: String,
    /// Statuses of all conditions before.
    #[serde(default)]
    pub(super) conditions: BTreeMap<String, String>,
    /// Whether its instance has its earlier user data again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) restored: bool,
}

impl PushRecord {
    /// Stores user data and returns its key.
    pub(super) fn keep(&mut self, user_data: String) -> String {
        let key = sha256_hex(user_data.as_bytes());
        self.earlier.entry(key.clone()).or_insert(user_data);
        key
    }

    /// Names of the nodes whose instances were written, newest first.
    pub(super) fn newest_first(&self) -> Vec<String> {
        let mut names: Vec<(&str, &String)> =
            self.nodes.iter().map(|(name, node)| (node.desired.since.as_str(), name)).collect();
        names.sort_unstable();
        names.into_iter().rev().map(|(_, name)| name.clone()).collect()
    }
}

/// A condition as text, to notice that it changed.
pub(super) fn text(condition: Option<&NodeCondition>) -> String {
    condition.map(|one| format!("{} {} {}", one.status, one.reason, one.message)).unwrap_or_default()
}

/// The record and its place in the cluster.
pub(super) struct Stored {
    store: JournalStore<PushRecord>,
    journal: Journal<PushRecord>,
}

impl Stored {
    /// Reads the record of the last push to a pool.
    pub(super) async fn load<F: Factory>(context: &Context<F>, pool: &PoolName, writer: Owner) -> Result<Self, Error> {
        let store = JournalStore::of_push(&context.cluster, &context.namespace, pool, writer);
        let journal = store.load().await?;
        Ok(Self { store, journal })
    }

    /// The last push, if there was one.
    pub(super) fn last(&self) -> Option<&PushRecord> {
        self.journal.entries().last()
    }

    /// Where the record is, as `NAMESPACE/NAME` of a `ConfigMap`.
    pub(super) fn place(&self) -> String {
        self.store.to_string()
    }

    /// Replaces the record, if it differs. It is durable when this returns.
    pub(super) async fn save(&mut self, record: &PushRecord) -> Result<(), Error> {
        if self.last() == Some(record) {
            return Ok(());
        }
        let room = if record.rejected || record.ended.is_some() { Room::Release } else { Room::Ordinary };
        Ok(self.store.save(&mut self.journal, vec![record.clone()], room).await?)
    }
}
