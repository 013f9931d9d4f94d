//! What the cluster says of a node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ready_time::Span;

/// Keys by which clusters have marked their control plane, as labels and as taints: first `master`, since 1.20 `control-plane`.
const CONTROL_PLANE_KEYS: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
/// Labels that say a role by their value, as AKS Engine writes them.
const ROLE_LABELS: [&str; 2] = ["kubernetes.io/role", "kubernetes.azure.com/role"];
const CONTROL_PLANE_ROLES: [&str; 2] = ["master", "control-plane"];

/// A node as the cluster tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeFacts {
    pub name: String,
    /// What ties it to a machine of the cloud.
    pub provider_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Whether no pod is scheduled to it.
    pub cordoned: bool,
    /// Whether it is Ready.
    pub ready: bool,
    /// Since when it is so, or is not.
    pub ready_since: Option<Timestamp>,
    /// When it last said so.
    pub heartbeat: Option<Timestamp>,
    /// When it joined.
    pub created: Option<Timestamp>,
    /// Whether it runs Windows.
    pub windows: bool,
    pub kernel: String,
    pub kubelet: String,
    /// Its distribution and release.
    pub os_image: String,
    /// Its container runtime.
    pub runtime: String,
    /// The run that holds it.
    pub held_by: Option<String>,
}

/// A taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    pub value: Option<String>,
    /// What it does to pods that do not tolerate it.
    pub effect: String,
}

impl NodeFacts {
    /// How long it has been Ready as far as it said itself: from the change to its last word, as kamino counts.
    pub fn ready_for(&self) -> Option<Span> {
        let (since, heartbeat) = (self.ready_since?, self.heartbeat?);
        self.ready.then(|| Span::between(since, heartbeat))
    }

    /// Whether it is of the control plane.
    pub fn is_control_plane(&self) -> bool {
        let labelled = CONTROL_PLANE_KEYS.iter().any(|key| self.labels.contains_key(*key));
        let tainted = self.taints.iter().any(|taint| CONTROL_PLANE_KEYS.contains(&taint.key.as_str()));
        let role =
            |label: &&str| self.labels.get(*label).is_some_and(|role| CONTROL_PLANE_ROLES.contains(&role.as_str()));
        labelled || tainted || ROLE_LABELS.iter().any(role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_marks_of_the_control_plane_are_known() {
        let labelled = |key: &str, value: &str| NodeFacts {
            labels: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            ..NodeFacts::default()
        };
        assert!(labelled("kubernetes.io/role", "master").is_control_plane());
        assert!(labelled("node-role.kubernetes.io/master", "").is_control_plane());
        assert!(labelled("node-role.kubernetes.io/control-plane", "").is_control_plane());
        assert!(!labelled("kubernetes.io/role", "agent").is_control_plane());
        let taint =
            Taint { key: "node-role.kubernetes.io/control-plane".into(), value: None, effect: "NoSchedule".into() };
        assert!(NodeFacts { taints: vec![taint], ..NodeFacts::default() }.is_control_plane());
    }

    #[test]
    fn a_node_is_ready_for_as_long_as_it_has_said_so() {
        let at = |text: &str| Some(text.parse().unwrap());
        let node = NodeFacts {
            ready: true,
            ready_since: at("2026-11-15T10:00:00Z"),
            heartbeat: at("2026-11-15T11:00:00Z"),
            ..NodeFacts::default()
        };
        assert_eq!(node.ready_for(), Some(Span::from_secs(3600)));
        assert_eq!(NodeFacts { ready: false, ..node.clone() }.ready_for(), None);
        assert_eq!(NodeFacts { heartbeat: None, ..node }.ready_for(), None);
    }
}
