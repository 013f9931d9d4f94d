//! What the node's object in the cluster must become, and what only the cluster can bring about.

use std::collections::BTreeMap;
use std::fmt;

use kiln_node_config::spec::{Kubelet, Taint};
use kiln_node_config::{Effect, NodeConfig};
use serde::Serialize;

use crate::labels::node_may_set;

/// Something that needs the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "ask")]
pub enum Ask {
    /// Labels of the node's object.
    #[serde(rename_all = "camelCase")]
    Labels {
        /// Labels to set.
        set: BTreeMap<String, String>,
        /// Labels to take away.
        remove: Vec<String>,
        /// Whether the node may do that itself.
        by_node: bool,
    },
    /// Taints of the node's object.
    Taints {
        /// Taints that it is to have.
        set: Vec<Taint>,
        /// Taints, as `key:effect`, to take away.
        remove: Vec<String>,
    },
    /// Leave to have services read their files again: the document allows less.
    Reload,
    /// Leave to restart services, while pods stay: the document allows less.
    Restart,
    /// Pods leave, then the document is applied.
    Drain,
    /// Pods leave, then the document is applied and the machine restarts.
    Reboot,
    /// The node goes and a new one comes.
    Replace,
}

impl fmt::Display for Ask {
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
            Self::Reload => f.write_str("leave to reload services"),
            Self::Restart => f.write_str("leave to restart services"),
            Self::Drain => f.write_str("drain"),
            Self::Reboot => f.write_str("drain and restart of the machine"),
            Self::Replace => f.write_str("a new node"),
        }
    }
}

/// What the cluster must do for a document. A node that registers gives itself its labels and taints, but for those that it may not.
pub(super) fn asks(in_force: Option<&NodeConfig>, wanted: &NodeConfig, beyond: Option<Effect>) -> Vec<Ask> {
    let nothing = Kubelet::default();
    let from = in_force.map_or(&nothing, |config| &config.spec.kubelet);
    let to = &wanted.spec.kubelet;
    let mut asks = Vec::new();
    for by_node in [true, false] {
        if by_node && in_force.is_none() {
            continue;
        }
        let mine = |key: &&String| node_may_set(key) == by_node;
        let set: BTreeMap<String, String> = to
            .labels
            .iter()
            .filter(|(key, value)| mine(key) && from.labels.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let remove: Vec<String> =
            from.labels.keys().filter(mine).filter(|key| !to.labels.contains_key(*key)).cloned().collect();
        if !set.is_empty() || !remove.is_empty() {
            asks.push(Ask::Labels { set, remove, by_node });
        }
    }
    if in_force.is_some() {
        let name = |taint: &Taint| format!("{}:{}", taint.key, taint.effect.as_str());
        let set: Vec<Taint> = to.taints.iter().filter(|taint| !from.taints.contains(taint)).cloned().collect();
        let keeps = |gone: &Taint| to.taints.iter().any(|taint| name(taint) == name(gone));
        let remove: Vec<String> = from.taints.iter().filter(|taint| !keeps(taint)).map(name).collect();
        if !set.is_empty() || !remove.is_empty() {
            asks.push(Ask::Taints { set, remove });
        }
    }
    asks.extend(match beyond {
        Some(Effect::Replace) => Some(Ask::Replace),
        Some(Effect::Reboot) => Some(Ask::Reboot),
        Some(Effect::Drain) => Some(Ask::Drain),
        Some(Effect::Restart) => Some(Ask::Restart),
        Some(Effect::Reload) => Some(Ask::Reload),
        // Neither is ever beyond what a document allows.
        Some(Effect::None | Effect::Cluster) | None => None,
    });
    asks
}
