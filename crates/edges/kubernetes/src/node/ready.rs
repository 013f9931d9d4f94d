//! Waits for a node to be ready.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1;
use kiln_types::Node;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::convert::node_from;
use crate::name::NodeName;
use crate::request::{Outage, once};
use crate::{Cluster, Error};

/// When a node counts as ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadyWhen {
    /// As soon as its condition `Ready` is true.
    Now,
    /// Once its condition is true after a boot with another boot ID. A machine that was turned off keeps its condition for most of a minute.
    BootedSince(String),
}

/// The watch is renewed this often, because a dead connection is not noticed otherwise.
const WATCH_SECONDS: u32 = 60;
/// How late the server may end a watch.
const WATCH_SLACK: Duration = Duration::from_secs(10);
/// Prevents a tight loop when the server ends every watch at once.
const BETWEEN_WATCHES: Duration = Duration::from_millis(100);

impl Cluster {
    /// Waits until a node is ready; the error names the last reason. Outages of the server are waited out.
    pub async fn wait_ready(&self, name: &NodeName, when: &ReadyWhen, within: Duration) -> Result<Node, Error> {
        let deadline = Instant::now() + within;
        let mut outage = Outage::default();
        let mut failures = 0;
        let mut reason = "the API server has not answered".to_owned();
        loop {
            let seen = timeout_at(deadline, self.until_ready(name, when, &mut reason)).await;
            let not_ready = || Error::NotReady { node: name.clone(), waited: within, reason: reason.clone() };
            let error = match seen {
                Err(_) => return Err(not_ready()),
                Ok(Ok(Some(seen))) => return Ok(seen),
                Ok(Ok(None)) => {
                    failures = 0;
                    sleep(BETWEEN_WATCHES).await;
                    continue;
                }
                Ok(Err(error)) => error,
            };
            let now = Instant::now();
            // A compacted revision is handled by reading the node again.
            let expired = error.is_expired();
            if !expired && !error.is_not_found() && !outage.should_retry(&error, now) {
                return Err(error);
            }
            if !expired {
                reason = if error.is_not_found() { "there is no such node".to_owned() } else { error.to_string() };
            }
            let wake = now + self.wait_after(failures, &error);
            failures += 1;
            if wake >= deadline {
                sleep_until(deadline).await;
                return Err(Error::NotReady { node: name.clone(), waited: within, reason });
            }
            sleep_until(wake).await;
        }
    }

    /// Reads the node and watches it; `None` when the watch ended before it was ready.
    async fn until_ready(&self, name: &NodeName, when: &ReadyWhen, reason: &mut String) -> Result<Option<Node>, Error> {
        let api = self.nodes();
        let seen = node_from(once(&format!("get node `{name}`"), api.get(name.as_str())).await?)?;
        let revision = seen.revision.clone();
        if judge(&seen, when, reason) {
            return Ok(Some(seen));
        }
        let action = format!("watch node `{name}`");
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let mut events = pin!(once(&action, api.watch(&params, &revision)).await?);
        let silent = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + WATCH_SLACK;
        loop {
            let Ok(event) = timeout_at(silent, events.try_next()).await else { return Ok(None) };
            let node: v1::Node = match event.map_err(|error| Error::from_kube(&action, error))? {
                Some(WatchEvent::Added(node) | WatchEvent::Modified(node)) => node,
                Some(WatchEvent::Deleted(_)) => {
                    "the node was deleted".clone_into(reason);
                    continue;
                }
                Some(WatchEvent::Bookmark(_)) => continue,
                Some(WatchEvent::Error(status)) => return Err(Error::from_kube(&action, kube::Error::Api(status))),
                None => return Ok(None),
            };
            let seen = node_from(node)?;
            if judge(&seen, when, reason) {
                return Ok(Some(seen));
            }
        }
    }
}

/// Whether the node is ready; if not, `reason` is updated.
fn judge(seen: &Node, when: &ReadyWhen, reason: &mut String) -> bool {
    if let ReadyWhen::BootedSince(before) = when
        && seen.boot_id.as_ref().is_none_or(|boot| boot == before)
    {
        *reason = format!("the kubelet has not reported since the machine was restarted (boot `{before}`)");
        return false;
    }
    *reason = seen.readiness.to_string();
    seen.is_ready()
}
