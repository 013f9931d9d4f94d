//! Waits for a change of a pool's nodes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1;
use kiln_types::{Node, NodeName, PoolName, ProviderId};
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::convert::node_from;
use crate::request::{Outage, once};
use crate::{Cluster, Error};

/// Before the next watch, so that a server that ends every watch at once is not asked in a loop.
const BETWEEN_WATCHES: Duration = Duration::from_secs(1);

/// The parts of a node that a caller waits for. Kubelets write to their nodes all the time; those changes are skipped.
type Summary = fn(&Node) -> String;

fn availability(node: &Node) -> String {
    format!("{:?} {} {}", node.provider_id, node.is_ready(), node.cordoned)
}

/// Availability, and what kilnd reports: its annotations and its condition.
fn report(node: &Node) -> String {
    let annotations: Vec<_> = node.annotations.iter().filter(|(key, _)| key.starts_with("kiln.dev/")).collect();
    format!("{} {annotations:?} {:?}", availability(node), node.conditions.get("KilnConfigured"))
}

impl Cluster {
    /// Waits until a node of a pool joins, leaves, or changes its readiness or its cordon, compared with `seen`; at most `within`.
    pub async fn wait_for_node_change(&self, pool: &PoolName, seen: &[Node], within: Duration) -> Result<(), Error> {
        self.wait_for_summary(pool, seen, within, availability).await
    }

    /// The same, or until kilnd on a node reports something else.
    pub async fn wait_for_node_report(&self, pool: &PoolName, seen: &[Node], within: Duration) -> Result<(), Error> {
        self.wait_for_summary(pool, seen, within, report).await
    }

    async fn wait_for_summary(
        &self,
        pool: &PoolName,
        seen: &[Node],
        within: Duration,
        summary: Summary,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + within;
        let mut outage = Outage::default();
        loop {
            match timeout_at(deadline, self.until_changed(pool, seen, summary)).await {
                Err(_) | Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) => {}
                // A compacted revision is handled by listing again.
                Ok(Err(error)) if error.is_expired() || outage.should_retry(&error, Instant::now()) => {}
                Ok(Err(error)) => return Err(error),
            }
            sleep_until((Instant::now() + BETWEEN_WATCHES).min(deadline)).await;
        }
    }

    /// Lists and watches the nodes; `false` when the watch ended before a change.
    async fn until_changed(&self, pool: &PoolName, seen: &[Node], summary: Summary) -> Result<bool, Error> {
        let (nodes, revision) = self.nodes_of_at(pool).await?;
        let by_name = |nodes: &[Node]| -> BTreeMap<NodeName, String> {
            nodes.iter().map(|node| (node.name.clone(), summary(node))).collect()
        };
        let before = by_name(seen);
        if by_name(&nodes) != before {
            return Ok(true);
        }
        let action = "watch nodes";
        let api = self.nodes();
        let mut events = pin!(once(action, api.watch(&WatchParams::default(), &revision)).await?);
        while let Some(event) = events.try_next().await.map_err(|error| Error::from_kube(action, error))? {
            let (node, gone): (v1::Node, bool) = match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => (node, false),
                WatchEvent::Deleted(node) => (node, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => return Err(Error::from_kube(action, kube::Error::Api(status))),
            };
            let node = node_from(node)?;
            let known = before.get(&node.name);
            let is_of_pool = ProviderId::from_node(&node).is_some_and(|id| id.is_of(pool));
            let changed = match known {
                Some(known) => gone || !is_of_pool || *known != summary(&node),
                None => !gone && is_of_pool,
            };
            if changed {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
