//! Requests to the cluster: changes of a Node that a node may not make itself.

use std::collections::BTreeMap;
use std::fmt;

use kiln_node_config::spec::{Kubelet, Taint};
use kiln_node_config::{Effect, NodeConfig};
use serde::Serialize;

use crate::labels::node_may_set;

/// Something that needs the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "request")]
pub enum Request {
    /// Change labels of the Node object.
    #[serde(rename_all = "camelCase")]
    Labels {
        set: BTreeMap<String, String>,
        remove: Vec<String>,
        /// Whether `NodeRestriction` lets the node do it itself.
        by_node: bool,
    },
    /// Change taints of the Node object.
    Taints {
        set: Vec<Taint>,
        /// As `key:effect`.
        remove: Vec<String>,
    },
    /// Permission to reload services: the document allows the node less.
    Reload,
    /// Permission to restart services while pods keep running: the document allows the node less.
    Restart,
    /// Drain the node; then the document can be applied.
    Drain,
    /// Drain the node and reboot the machine.
    Reboot,
    /// Replace the node with a new one.
    Replace,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labels { set, remove, .. } => {
                let set = set.iter().map(|(key, value)| format!("{key}={value}"));
                let all: Vec<String> = set.chain(remove.iter().map(|key| format!("{key}-"))).collect();
                write!(f, "labels {}", all.join(", "))
            }
            Self::Taints { set, remove } => {
                let set = set.iter().map(|taint| format!("{}={}:{}", taint.key, taint.value, taint.effect.as_str()));
                let all: Vec<String> = set.chain(remove.iter().map(|name| format!("{name}-"))).collect();
                write!(f, "taints {}", all.join(", "))
            }
            Self::Reload => f.write_str("permission to reload services"),
            Self::Restart => f.write_str("permission to restart services"),
            Self::Drain => f.write_str("drain"),
            Self::Reboot => f.write_str("drain and reboot"),
            Self::Replace => f.write_str("replacement of the node"),
        }
    }
}

/// The requests of a document. A node that registers sets its own labels and taints, except those that `NodeRestriction` forbids.
pub(super) fn requests(in_force: Option<&NodeConfig>, wanted: &NodeConfig, beyond: Option<Effect>) -> Vec<Request> {
    let nothing = Kubelet::default();
    let from = in_force.map_or(&nothing, |config| &config.spec.kubelet);
    let to = &wanted.spec.kubelet;
    let mut requests = Vec::new();
    for by_node in [true, false] {
        if by_node && in_force.is_none() {
            continue;
        }
        let relevant = |key: &&String| node_may_set(key) == by_node;
        let set: BTreeMap<String, String> = to
            .labels
            .iter()
            .filter(|(key, value)| relevant(key) && from.labels.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let remove: Vec<String> =
            from.labels.keys().filter(relevant).filter(|key| !to.labels.contains_key(*key)).cloned().collect();
        if !set.is_empty() || !remove.is_empty() {
            requests.push(Request::Labels { set, remove, by_node });
        }
    }
    if in_force.is_some() {
        let name = |taint: &Taint| format!("{}:{}", taint.key, taint.effect.as_str());
        let set: Vec<Taint> = to.taints.iter().filter(|taint| !from.taints.contains(taint)).cloned().collect();
        let is_kept = |old: &Taint| to.taints.iter().any(|taint| name(taint) == name(old));
        let remove: Vec<String> = from.taints.iter().filter(|taint| !is_kept(taint)).map(name).collect();
        if !set.is_empty() || !remove.is_empty() {
            requests.push(Request::Taints { set, remove });
        }
    }
    requests.extend(match beyond {
        Some(Effect::Replace) => Some(Request::Replace),
        Some(Effect::Reboot) => Some(Request::Reboot),
        Some(Effect::Drain) => Some(Request::Drain),
        Some(Effect::Restart) => Some(Request::Restart),
        Some(Effect::Reload) => Some(Request::Reload),
        // Every document allows these.
        Some(Effect::None | Effect::Cluster) | None => None,
    });
    requests
}
