//! Waiting for a node to be ready.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1;
use kiln_types::Node;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::convert::node_from;
use crate::call::{Outage, once};
use crate::name::NodeName;
use crate::{Cluster, Error};

/// When a node counts as ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadyWhen {
    /// As soon as it says so.
    Now,
    /// Once it says so after another boot than this one. A machine that was turned off stays ready on paper for most of a minute.
    BootedSince(String),
}

/// A watch is asked for anew this often: a connection that died without a word is noticed by nothing else.
const WATCH_SECONDS: u32 = 60;
/// What the server may be late by when it ends a watch.
const WATCH_SLACK: Duration = Duration::from_secs(10);
/// A server that ends every watch at once is not asked in a tight loop.
const BETWEEN_WATCHES: Duration = Duration::from_millis(100);

impl Cluster {
    /// Waits until a node is ready, or says why it is not. A server that goes away and comes back is waited for too.
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
            // A revision that the server has forgotten is answered by reading anew.
            let expired = error.expired();
            if !expired && !error.not_found() && !outage.passes(&error, now) {
                return Err(error);
            }
            if !expired {
                reason = if error.not_found() { "there is no such node".to_owned() } else { error.to_string() };
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

    /// Reads the node and follows its changes; `None` when the watch ended before it was ready.
    async fn until_ready(&self, name: &NodeName, when: &ReadyWhen, reason: &mut String) -> Result<Option<Node>, Error> {
        let api = self.nodes();
        let seen = node_from(once(&format!("get node `{name}`"), api.get(name.as_str())).await?)?;
        let revision = seen.revision.clone();
        if judge(&seen, when, reason) {
            return Ok(Some(seen));
        }
        let what = format!("watch node `{name}`");
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let mut events = pin!(once(&what, api.watch(&params, &revision)).await?);
        let silent = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + WATCH_SLACK;
        loop {
            let Ok(event) = timeout_at(silent, events.try_next()).await else { return Ok(None) };
            let node: v1::Node = match event.map_err(|error| Error::of(&what, error))? {
                Some(WatchEvent::Added(node) | WatchEvent::Modified(node)) => node,
                Some(WatchEvent::Deleted(_)) => {
                    "the node was deleted".clone_into(reason);
                    continue;
                }
                Some(WatchEvent::Bookmark(_)) => continue,
                Some(WatchEvent::Error(status)) => return Err(Error::of(&what, kube::Error::Api(status))),
                None => return Ok(None),
            };
            let seen = node_from(node)?;
            if judge(&seen, when, reason) {
                return Ok(Some(seen));
            }
        }
    }
}

/// Whether the node is ready; if not, why not.
fn judge(seen: &Node, when: &ReadyWhen, reason: &mut String) -> bool {
    if let ReadyWhen::BootedSince(before) = when
        && seen.boot_id.as_ref().is_none_or(|boot| boot == before)
    {
        *reason = format!("kubelet has not reported since the machine was started again (boot `{before}`)");
        return false;
    }
    *reason = seen.readiness.to_string();
    seen.is_ready()
}
