//! The NodeState of a node: what the cluster wants of it, and what its kilnd reports.
//!
//! The spec is written by the operator, the status by the node's kilnd and by nothing else. The object has the name of its Node. It is plain
//! data without a client, because kilnd and the operator share it. It contains no secrets: every node may read every NodeState.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Effect;

/// Name of the resource in URLs.
pub const PLURAL: &str = "nodestates";

/// What the cluster wants of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeStateSpec {
    /// The document that the node has to apply. While it is set, the node ignores documents in user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Desired>,
    /// Digest of the document for which the node is drained. The node then applies it even if its effect is `drain` or `reboot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// The boot id that the node has to leave: if the node still has this boot id, it reboots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
}

/// A document by name and digest, and the rollout that assigned it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Desired {
    /// Name of the NodeConfig that contains the document.
    pub node_config: String,
    /// Digest of the document. The node refuses a NodeConfig with another digest.
    pub digest: String,
    /// Name of the Rollout that assigned the document; empty for a new node, which gets the pool's last complete target.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rollout: String,
    /// Number of the wave in that Rollout, starting at 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wave: u32,
    /// When the document was assigned, in RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// What a node's kilnd reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStateStatus {
    /// `metadata.generation` of the spec that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub phase: Phase,
    /// One sentence about the phase: what the node waits for, or why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The document in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Current>,
    /// Effect of the desired document on this node, if it is not in force yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What the node needs from the cluster.
    #[serde(skip_serializing_if = "Requests::is_empty")]
    pub requests: Requests,
    /// Results of the health gates of the document on trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateStatus>,
    /// The last document that this node reverted, rejected or failed to apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverted: Option<Reverted>,
    /// The boot id of the running kernel.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Version of the image that the node was created from, if the image names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_version: String,
    /// Version of kilnd.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kilnd: String,
    /// When the current boot reached its milestones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootTimes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])))]
    pub conditions: Vec<Condition>,
}

/// The phase of a node. `Current` and `Reverted` are final until the spec changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum Phase {
    /// No document is desired, or kilnd has not read it yet.
    #[default]
    Idle,
    /// The desired document was accepted and waits for its start.
    Accepted,
    /// The desired document needs a drain, a reboot or a replacement, which the node may not do by itself.
    Pending,
    /// The desired document is in force, and its health gates are checked.
    OnTrial,
    /// The desired document is in force and committed.
    Current,
    /// The desired document was refused, failed, or was reverted after its trial. The previous one is in force.
    Reverted,
}

impl Phase {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Accepted => "Accepted",
            Self::Pending => "Pending",
            Self::OnTrial => "OnTrial",
            Self::Current => "Current",
            Self::Reverted => "Reverted",
        }
    }
}

/// A document in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Current {
    pub digest: String,
    /// `metadata.generation` of the document.
    #[serde(default)]
    pub generation: u64,
    /// Where the document came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Whether the document passed its trial.
    #[serde(default)]
    pub committed: bool,
}

/// Requests of a node to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Requests {
    /// The action that the desired document waits for: `drain`, `reboot` or `replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<RequestedAction>,
    /// Digest of the document that waits for the action.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Labels to set that a node may not set itself; null removes a label.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Taints to set, by `key:effect`, with their value; null removes a taint.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub taints: BTreeMap<String, Option<String>>,
}

impl Requests {
    /// Whether the node needs nothing.
    pub fn is_empty(&self) -> bool {
        self.action.is_none() && self.labels.is_empty() && self.taints.is_empty()
    }
}

/// An action that a node may not do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RequestedAction {
    /// Apply the document now although it is configured to wait for the cluster.
    Apply,
    /// Drain the node, then allow the document.
    Drain,
    /// Reboot the node. It is drained first.
    Reboot,
    /// Replace the node by a new one.
    Replace,
}

/// The result of a health gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GateStatus {
    pub name: String,
    pub passed: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A document that was reverted, rejected or failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reverted {
    pub digest: String,
    pub reason: String,
}

/// Milestones of the current boot, in RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct BootTimes {
    /// When the kernel started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// When systemd started the kubelet first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_start: Option<String>,
    /// When the node became Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

/// A condition in the form that Kubernetes tools expect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Name of the condition in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["True", "False", "Unknown"])))]
    pub status: String,
    /// One word in CamelCase.
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    /// When `status` last changed, in RFC 3339.
    #[serde(default)]
    pub last_transition_time: String,
    /// `metadata.generation` that the condition answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Sets a condition in a list. The transition time changes only with the status.
    pub fn set(conditions: &mut Vec<Self>, new: Self) {
        match conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
            Some(old) if old.status == new.status => {
                *old = Self { last_transition_time: std::mem::take(&mut old.last_transition_time), ..new };
            }
            Some(old) => *old = new,
            None => conditions.push(new),
        }
    }

    /// Returns whether a condition is `True`.
    pub fn is_true(conditions: &[Self], type_: &str) -> bool {
        conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str, at: &str) -> Condition {
        Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            last_transition_time: at.to_owned(),
            ..Condition::default()
        }
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut conditions = vec![condition("False", "Waiting", "1")];
        Condition::set(&mut conditions, condition("False", "Failed", "2"));
        assert_eq!(conditions, [condition("False", "Failed", "1")]);
        Condition::set(&mut conditions, condition("True", "Done", "3"));
        assert_eq!(conditions, [condition("True", "Done", "3")]);
    }

    #[test]
    fn status_of_an_unknown_kilnd_version_is_readable() {
        let status: NodeStateStatus =
            serde_json::from_value(serde_json::json!({"phase": "OnTrial", "later": 1})).expect("a status");
        assert_eq!(status.phase, Phase::OnTrial);
        let text = serde_json::to_value(&status).expect("JSON");
        assert_eq!(text, serde_json::json!({"phase": "OnTrial"}));
    }
}
