//! The lock of kured, which reboots nodes one after another: kiln does not drain a node while kured is rebooting one.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;

use crate::{Cluster, Error};

/// On kured's `DaemonSet`: who holds its lock.
pub const KURED_LOCK_ANNOTATION: &str = "weave.works/kured-node-lock";

/// A lock that kured holds while it reboots a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KuredLock {
    /// As `namespace/name`.
    pub daemon_set: String,
    /// `None` if the annotation cannot be parsed.
    pub node: Option<String>,
}

impl fmt::Display for KuredLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { daemon_set, node } = self;
        match node {
            Some(node) => write!(f, "kured (DaemonSet `{daemon_set}`) is rebooting node `{node}`"),
            None => write!(f, "kured (DaemonSet `{daemon_set}`) has a lock that cannot be parsed"),
        }
    }
}

/// The annotation's value: one lock, or several of a kured with `--concurrency`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Several { locks: Vec<Lock> },
    One(Lock),
}

#[derive(Deserialize)]
struct Lock {
    #[serde(rename = "nodeID")]
    node: String,
    created: Option<Timestamp>,
    /// Nanoseconds; 0 for a lock that does not expire.
    #[serde(rename = "TTL", default)]
    ttl: i64,
}

impl Lock {
    fn is_held(&self, now: Timestamp) -> bool {
        let expired =
            |created: Timestamp| self.ttl > 0 && now.duration_since(created) > SignedDuration::from_nanos(self.ttl);
        !self.node.is_empty() && !self.created.is_some_and(expired)
    }
}

impl Cluster {
    /// The locks that kured holds.
    pub async fn kured_locks(&self) -> Result<Vec<KuredLock>, Error> {
        let sets: Api<DaemonSet> = Api::all(self.client.clone());
        let now = self.options.clock.now();
        let locks = |set: DaemonSet| {
            let text = set.metadata.annotations.and_then(|mut all| all.remove(KURED_LOCK_ANNOTATION));
            let (namespace, name) = (set.metadata.namespace.unwrap_or_default(), set.metadata.name.unwrap_or_default());
            Ok(text.map(|text| parse(&format!("{namespace}/{name}"), &text, now)))
        };
        let found = self.list_all("list DaemonSets", &sets, &ListParams::default(), locks).await?;
        Ok(found.into_iter().flatten().collect())
    }
}

fn parse(daemon_set: &str, text: &str, now: Timestamp) -> Vec<KuredLock> {
    let lock = |node| KuredLock { daemon_set: daemon_set.to_owned(), node };
    let locks = match serde_json::from_str(text) {
        // kured leaves an empty value when it releases its lock.
        _ if text.is_empty() => return Vec::new(),
        Ok(Value::Several { locks }) => locks,
        Ok(Value::One(one)) => vec![one],
        Err(_) => return vec![lock(None)],
    };
    locks.into_iter().filter(|one| one.is_held(now)).map(|one| lock(Some(one.node))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Vec<String> {
        let now = "2026-11-15T12:00:00Z".parse().unwrap();
        parse("kube-system/kured", text, now).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn locks_of_one_and_of_several_nodes_are_read() {
        let one = r#"{"nodeID":"node-1","metadata":{"unschedulable":false},"created":"2026-11-15T11:58:00Z","TTL":0}"#;
        let rebooting = |node: &str| format!("kured (DaemonSet `kube-system/kured`) is rebooting node `{node}`");
        assert_eq!(held(one), [rebooting("node-1")]);
        let several = format!(r#"{{"maxOwners":2,"locks":[{one},{}]}}"#, one.replace("node-1", "node-2"));
        assert_eq!(held(&several), [rebooting("node-1"), rebooting("node-2")]);
    }

    #[test]
    fn released_and_expired_locks_do_not_count() {
        for text in ["", r#"{"maxOwners":2,"locks":[]}"#, r#"{"nodeID":""}"#] {
            assert_eq!(held(text), [""; 0], "{text}");
        }
        let with_ttl = |minutes: u64| {
            let ttl = minutes * 60_000_000_000;
            format!(r#"{{"nodeID":"node-1","created":"2026-11-15T11:50:00Z","TTL":{ttl}}}"#)
        };
        assert_eq!(held(&with_ttl(9)).len(), 0);
        assert_eq!(held(&with_ttl(11)).len(), 1);
    }

    #[test]
    fn unreadable_lock_counts_as_held() {
        assert_eq!(held("node-1"), ["kured (DaemonSet `kube-system/kured`) has a lock that cannot be parsed"]);
    }
}
