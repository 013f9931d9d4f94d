//! The lock of kured, which reboots nodes one after another: kiln does not drain a node while kured is rebooting one, and the operator
//! takes the lock while it drains and reboots a node itself.
//!
//! The operator's lock has the node id `kiln/NODE`. With the plain name of the node, the kured of that node would take the lock for its own
//! after the reboot, and release it and uncordon the node.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use kiln_types::NodeName;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::request::once;
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

/// After this time kured ignores a lock of the operator: longer than any drain and reboot, so that it only ends the lock of an operator
/// that was uninstalled.
const TTL: SignedDuration = SignedDuration::from_hours(6);

/// The result of an attempt to take kured's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KuredAttempt {
    /// The cluster has no kured.
    Absent,
    /// The lock is the operator's.
    Taken,
    HeldBy(KuredLock),
}

/// The annotation's value: one lock, or several of a kured with `--concurrency`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Several { locks: Vec<Lock> },
    One(Lock),
}

#[derive(Clone, Serialize, Deserialize)]
struct Lock {
    #[serde(rename = "nodeID")]
    node: String,
    #[serde(default)]
    metadata: Json,
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

    /// Takes kured's lock for a node, if the cluster has kured and the lock is free. Taking it again changes nothing.
    pub async fn take_kured_lock(&self, node: &NodeName) -> Result<KuredAttempt, Error> {
        let now = self.options.clock.now();
        let mut attempt = KuredAttempt::Absent;
        for set in self.kured_sets().await? {
            match plan_lock(&set, node, now) {
                Plan::Keep => {}
                Plan::HeldBy(lock) => return Ok(KuredAttempt::HeldBy(lock)),
                Plan::Write(text) => self.write_lock(&set, text).await?,
            }
            attempt = KuredAttempt::Taken;
        }
        Ok(attempt)
    }

    /// Releases the operator's lock for a node. A lock of kured is left alone.
    pub async fn release_kured_lock(&self, node: &NodeName) -> Result<(), Error> {
        for set in self.kured_sets().await? {
            if let Plan::Write(text) = plan_unlock(&set, node) {
                self.write_lock(&set, text).await?;
            }
        }
        Ok(())
    }

    /// Names of the nodes for which the operator has kured's lock.
    pub async fn kured_locks_of_kiln(&self) -> Result<Vec<NodeName>, Error> {
        let locks = self.kured_locks().await?;
        let nodes = locks.into_iter().filter_map(|lock| lock.node);
        Ok(nodes.filter_map(|node| node.strip_prefix(OPERATOR)?.parse().ok()).collect())
    }

    /// The `DaemonSets` of kured: those with its lock, its name or its label.
    async fn kured_sets(&self) -> Result<Vec<DaemonSet>, Error> {
        let sets: Api<DaemonSet> = Api::all(self.client.clone());
        let keep = |set: DaemonSet| Ok(is_kured(&set).then_some(set));
        self.list_all("list DaemonSets", &sets, &ListParams::default(), keep).await
    }

    /// Writes or removes the annotation, unless the `DaemonSet` changed since it was read.
    async fn write_lock(&self, set: &DaemonSet, text: Option<String>) -> Result<(), Error> {
        let (namespace, name) = id(set);
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(json!({"metadata": {
            "resourceVersion": set.metadata.resource_version,
            "annotations": {(KURED_LOCK_ANNOTATION): text},
        }}));
        let action = format!("change kured's lock on DaemonSet `{namespace}/{name}`");
        once(&action, api.patch(name, &PatchParams::default(), &patch)).await.map(drop)
    }
}

/// Prefix of the node id in a lock of the operator.
const OPERATOR: &str = "kiln/";

fn id(set: &DaemonSet) -> (&str, &str) {
    (set.metadata.namespace.as_deref().unwrap_or_default(), set.metadata.name.as_deref().unwrap_or_default())
}

fn is_kured(set: &DaemonSet) -> bool {
    let labels = set.metadata.labels.iter().flatten();
    lock_text(set).is_some()
        || id(set).1 == "kured"
        || labels.into_iter().any(|(key, value)| key == "app.kubernetes.io/name" && value == "kured")
}

fn lock_text(set: &DaemonSet) -> Option<&str> {
    set.metadata.annotations.as_ref()?.get(KURED_LOCK_ANNOTATION).map(String::as_str)
}

/// The number of nodes that kured may reboot at the same time, from its arguments.
fn concurrency(set: &DaemonSet) -> usize {
    let containers = set.spec.iter().flat_map(|spec| spec.template.spec.iter().flat_map(|pod| &pod.containers));
    let arguments = containers.flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let number = |argument: &String| argument.trim_start_matches('-').strip_prefix("concurrency=")?.parse().ok();
    arguments.into_iter().find_map(number).unwrap_or(1)
}

/// The next write to kured's lock.
#[derive(Debug, PartialEq)]
enum Plan {
    Keep,
    HeldBy(KuredLock),
    /// The new value; `None` removes the annotation.
    Write(Option<String>),
}

fn plan_lock(set: &DaemonSet, node: &NodeName, now: Timestamp) -> Plan {
    let (own, most) = (format!("{OPERATOR}{node}"), concurrency(set));
    let name = format!("{}/{}", id(set).0, id(set).1);
    let Some(mut locks) = read(lock_text(set).unwrap_or_default()) else {
        return Plan::HeldBy(KuredLock { daemon_set: name, node: None });
    };
    locks.retain(|lock| lock.is_held(now));
    if locks.iter().any(|lock| lock.node == own) {
        return Plan::Keep;
    }
    if locks.len() >= most {
        let node = locks.swap_remove(0).node;
        return Plan::HeldBy(KuredLock { daemon_set: name, node: Some(node) });
    }
    let ttl = i64::try_from(TTL.as_nanos()).unwrap_or(i64::MAX);
    locks.push(Lock { node: own, metadata: json!({"unschedulable": false}), created: Some(now), ttl });
    Plan::Write(Some(text(&locks, most)))
}

fn plan_unlock(set: &DaemonSet, node: &NodeName) -> Plan {
    let own = format!("{OPERATOR}{node}");
    let mut locks = read(lock_text(set).unwrap_or_default()).unwrap_or_default();
    let before = locks.len();
    locks.retain(|lock| lock.node != own);
    match (locks.len() == before, locks.is_empty()) {
        (true, _) => Plan::Keep,
        (false, true) => Plan::Write(None),
        (false, false) => Plan::Write(Some(text(&locks, concurrency(set)))),
    }
}

/// The value that kured with this concurrency reads.
fn text(locks: &[Lock], most: usize) -> String {
    match locks {
        [one] if most == 1 => json!(one).to_string(),
        several => json!({"maxOwners": most, "locks": several}).to_string(),
    }
}

/// The locks in an annotation; `None` if it cannot be parsed.
fn read(text: &str) -> Option<Vec<Lock>> {
    match serde_json::from_str(text) {
        // kured leaves an empty value when it releases its lock.
        _ if text.is_empty() => Some(Vec::new()),
        Ok(Value::Several { locks }) => Some(locks),
        Ok(Value::One(one)) => Some(vec![one]),
        Err(_) => None,
    }
}

fn parse(daemon_set: &str, text: &str, now: Timestamp) -> Vec<KuredLock> {
    let lock = |node| KuredLock { daemon_set: daemon_set.to_owned(), node };
    let Some(locks) = read(text) else { return vec![lock(None)] };
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

    fn kured(lock: Option<&str>, arguments: &[&str]) -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "kured",
                "annotations": lock.map(|lock| json!({(KURED_LOCK_ANNOTATION): lock}))},
            "spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "kured", "command": arguments}]}}},
        }))
        .unwrap()
    }

    fn with(set: &DaemonSet, plan: Plan, arguments: &[&str]) -> DaemonSet {
        match plan {
            Plan::Write(text) => kured(text.as_deref(), arguments),
            Plan::Keep => set.clone(),
            Plan::HeldBy(lock) => panic!("{lock}"),
        }
    }

    #[test]
    fn operator_takes_a_free_lock_once_and_releases_only_its_own() {
        let (now, node): (Timestamp, NodeName) = ("2026-11-15T12:00:00Z".parse().unwrap(), "node-1".parse().unwrap());
        let other: NodeName = "node-2".parse().unwrap();
        let plain = ["/usr/bin/kured"];
        let free = kured(None, &plain);
        let taken = with(&free, plan_lock(&free, &node, now), &plain);
        assert_eq!(
            held(lock_text(&taken).unwrap()),
            ["kured (DaemonSet `kube-system/kured`) is rebooting node `kiln/node-1`"]
        );
        assert_eq!(plan_lock(&taken, &node, now), Plan::Keep);
        assert!(matches!(plan_lock(&taken, &other, now), Plan::HeldBy(_)), "kured has one lock by default");
        assert_eq!(plan_unlock(&taken, &other), Plan::Keep);
        assert_eq!(plan_unlock(&taken, &node), Plan::Write(None));
        let foreign = kured(Some(r#"{"nodeID":"node-1","created":"2026-11-15T11:58:00Z","TTL":0}"#), &plain);
        assert!(matches!(plan_lock(&foreign, &node, now), Plan::HeldBy(_)), "kured reboots this node");
        assert_eq!(plan_unlock(&foreign, &node), Plan::Keep);
        assert!(matches!(plan_lock(&kured(Some("?"), &plain), &node, now), Plan::HeldBy(_)));
    }

    #[test]
    fn kured_with_concurrency_shares_its_lock() {
        let now = "2026-11-15T12:00:00Z".parse().unwrap();
        let arguments = ["/usr/bin/kured", "--concurrency=2"];
        let nodes: [NodeName; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
        let free = kured(None, &arguments);
        let one = with(&free, plan_lock(&free, &nodes[0], now), &arguments);
        let two = with(&one, plan_lock(&one, &nodes[1], now), &arguments);
        assert!(lock_text(&two).unwrap().contains(r#""maxOwners":2"#), "{two:?}");
        assert!(matches!(plan_lock(&two, &nodes[2], now), Plan::HeldBy(_)));
        let released = with(&two, plan_unlock(&two, &nodes[0]), &arguments);
        assert_eq!(held(lock_text(&released).unwrap()).len(), 1);
    }
}
