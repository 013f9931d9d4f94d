//! A node, as the API server describes it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::name::{InstanceId, NodeName, PoolName};
use crate::provider_id::ProviderId;
use crate::taint::Taint;

/// Keys that mark control-plane nodes, as labels and as taints: `master` at first, `control-plane` since Kubernetes 1.20.
const CONTROL_PLANE_KEYS: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
/// Labels with the role as their value, as AKS Engine writes them.
const ROLE_LABELS: [&str; 2] = ["kubernetes.io/role", "kubernetes.azure.com/role"];
const CONTROL_PLANE_ROLES: [&str; 2] = ["master", "control-plane"];
/// The label with the operating system, and its older name.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// The state of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: NodeName,
    pub uid: String,
    /// The instance that the node runs on, in the cloud's terms.
    pub provider_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub cordoned: bool,
    pub taints: Vec<Taint>,
    pub created: Option<Timestamp>,
    pub readiness: Readiness,
    /// When the condition `Ready` last changed.
    pub ready_since: Option<Timestamp>,
    /// When the kubelet last wrote the condition `Ready`. Recent kubelets write it only every five minutes and renew a lease instead.
    pub heartbeat: Option<Timestamp>,
    pub system: NodeSystem,
    /// Changes with each boot.
    pub boot_id: Option<String>,
    /// The resource version.
    pub revision: String,
    /// The run or refresh that holds the node, from the annotation `kiln.dev/hold`.
    pub held_by: Option<String>,
    /// All conditions by type, `Ready` included.
    pub conditions: BTreeMap<String, NodeCondition>,
}

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// Software and identity of a node, as its kubelet reports them. Empty until it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSystem {
    pub kernel: String,
    pub kubelet: String,
    pub os_image: String,
    /// The container runtime and its version.
    pub runtime: String,
    /// `linux` or `windows`.
    pub operating_system: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// The VM id in the firmware.
    pub system_uuid: String,
    pub machine_id: String,
}

/// The condition `Ready` of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Readiness {
    Ready,
    NotReady {
        /// `False` or `Unknown`.
        status: String,
        reason: String,
        message: String,
    },
    /// The kubelet has not reported the condition yet.
    #[default]
    Unreported,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("it is Ready"),
            Self::NotReady { status, reason, message } => write!(f, "condition Ready is {status}: {reason}: {message}"),
            Self::Unreported => f.write_str("the kubelet has not reported a condition Ready yet"),
        }
    }
}

impl Node {
    /// A node with only a name; everything else is empty.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            uid: String::new(),
            provider_id: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            cordoned: false,
            taints: Vec::new(),
            created: None,
            readiness: Readiness::Unreported,
            ready_since: None,
            heartbeat: None,
            system: NodeSystem::default(),
            boot_id: None,
            revision: String::new(),
            held_by: None,
            conditions: BTreeMap::new(),
        }
    }

    /// Whether it runs on this instance of a pool, by its provider ID. Names say nothing about it: Azure writes the number in a host name
    /// with upper-case letters, and a kubelet with `--hostname-override` has any name.
    pub fn is_instance(&self, pool: &PoolName, instance: &InstanceId) -> bool {
        ProviderId::from_node(self).is_some_and(|id| id.is_instance(pool, instance))
    }

    /// Whether its condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.readiness == Readiness::Ready
    }

    /// Whether it runs Windows, by its labels or by its kubelet's report.
    pub fn is_windows(&self) -> bool {
        let labelled = OS_LABELS.iter().filter_map(|label| self.labels.get(*label)).any(|os| os == "windows");
        labelled || self.system.operating_system == "windows"
    }

    /// Whether it belongs to the control plane.
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

    fn node() -> Node {
        Node::new("n".parse().unwrap())
    }

    fn labelled(key: &str, value: &str) -> Node {
        Node { labels: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..node() }
    }

    #[test]
    fn control_plane_nodes_are_recognised_by_old_and_new_marks() {
        assert!(labelled("kubernetes.io/role", "master").is_control_plane());
        assert!(labelled("node-role.kubernetes.io/master", "").is_control_plane());
        assert!(labelled("node-role.kubernetes.io/control-plane", "").is_control_plane());
        assert!(!labelled("kubernetes.io/role", "agent").is_control_plane());
        let taint: Taint = "node-role.kubernetes.io/control-plane:NoSchedule".parse().unwrap();
        assert!(Node { taints: vec![taint], ..node() }.is_control_plane());
    }

    #[test]
    fn windows_nodes_are_recognised_by_either_label_or_by_the_kubelet() {
        assert!(labelled("kubernetes.io/os", "windows").is_windows());
        assert!(labelled("beta.kubernetes.io/os", "windows").is_windows());
        let reported = NodeSystem { operating_system: "windows".to_owned(), ..NodeSystem::default() };
        assert!(Node { system: reported, ..node() }.is_windows());
        assert!(!labelled("kubernetes.io/os", "linux").is_windows());
    }
}
