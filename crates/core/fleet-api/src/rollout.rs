//! A change of a set of nodes.

use std::collections::BTreeMap;

use kiln_node_config::node_state::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::RolloutPolicySpec;

/// Brings one document, or one image version, to the nodes of some pools, in waves. The target never changes; another target is another Rollout.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "Rollout",
    plural = "rollouts",
    shortname = "kro",
    status = "RolloutStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target.nodeConfig"}"#,
    printcolumn = r#"{"name": "Image", "type": "string", "jsonPath": ".spec.target.imageVersion"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Plan", "type": "string", "jsonPath": ".status.planText"}"#,
    printcolumn = r#"{"name": "Wave", "type": "string", "jsonPath": ".status.waveText"}"#,
    printcolumn = r#"{"name": "Updated", "type": "string", "jsonPath": ".status.updatedText"}"#,
    printcolumn = r#"{"name": "Failed", "type": "integer", "jsonPath": ".status.failed"}"#,
    printcolumn = r#"{"name": "Waiting-For", "type": "string", "jsonPath": ".status.waitingFor.reason"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("self.target == oldSelf.target").message("the target of a Rollout never changes; create another Rollout"),
    validation = Rule::new("self.pools == oldSelf.pools").message("the pools of a Rollout never change; create another Rollout"),
    validation = Rule::new("size(self.pools) > 0").message("`pools` must name at least one Pool"),
    validation = Rule::new("!(has(self.policyRef) && has(self.policy))").message("set `policyRef` or `policy`, not both"),
    validation = Rule::new("has(self.target.nodeConfig) != has(self.target.imageVersion)").message("`target` has exactly one of `nodeConfig` and `imageVersion`"),
    validation = Rule::new("!has(self.target.digest) || has(self.target.nodeConfig)").message("`target.digest` is the digest of a NodeConfig"),
    validation = Rule::new("!has(self.target.imageVersion) || size(self.pools) == 1").message("an image version belongs to one Pool; name only that one in `pools`")
)]
pub struct RolloutSpec {
    /// Names of the Pools.
    #[schemars(length(max = 100))]
    pub pools: Vec<String>,
    pub target: Target,
    /// Name of a RolloutPolicy. Without it and without `policy`, the policy of the first pool that names one applies, else the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RolloutPolicySpec>,
    /// Whether nodes may be drained, rebooted or replaced.
    #[serde(default)]
    pub replacement: Replacement,
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Finishes the nodes in flight and starts no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Ends the rollout: nodes in flight are finished, no others are started, and `onFailure` is not carried out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
    /// The highest wave that a person approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub approved_wave: Option<u32>,
    /// When the approval expires, in RFC 3339. A wave that has not started by then needs a new approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub approved_until: Option<String>,
}

/// A document by name and digest, or an image version by name.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Name of a NodeConfig. The nodes are changed in place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1))]
    pub node_config: String,
    /// Digest of its document. The rollout stops if the NodeConfig has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Name of an ImageVersion. The nodes are replaced by new machines of that version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub image_version: Option<String>,
}

impl Target {
    /// A document.
    pub fn document(node_config: impl Into<String>, digest: Option<String>) -> Self {
        Self { node_config: node_config.into(), digest, image_version: None }
    }

    /// An image version.
    pub fn image(version: impl Into<String>) -> Self {
        Self { image_version: Some(version.into()), ..Self::default() }
    }

    /// Returns the name of the NodeConfig or of the ImageVersion.
    pub fn name(&self) -> &str {
        self.image_version.as_deref().unwrap_or(&self.node_config)
    }
}

/// What a rollout may do to a node that cannot get the target while its pods run.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Replacement {
    /// Only changes that need no drain. Others stop the rollout before it starts.
    Never,
    /// Drain, reboot or replace nodes where the target needs it.
    #[default]
    WhenNeeded,
}

/// What happens when the failure limit is reached.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// No further node is started.
    Halt,
    /// The updated nodes return to the last complete target, newest first.
    #[default]
    RollBack,
}

/// Progress of a rollout.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub phase: RolloutPhase,
    /// Digest of the target's document, or the number of the target's image version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The target that the pools had before; a rollback returns to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub previous: BTreeMap<String, Target>,
    /// Nodes by the effect of the change on them.
    pub plan: PlanCounts,
    /// `plan` as text, such as `restart:38,drain:2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_text: String,
    /// The wave that is under way, and the number of waves, such as `2/4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wave_text: String,
    /// Updated nodes and all nodes, such as `11/40`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub updated_text: String,
    pub waves: Vec<WaveStatus>,
    /// Number of nodes of the rollout.
    pub total: i64,
    /// Nodes on which the target is in force and the gates passed.
    pub updated: i64,
    /// Nodes that reverted, refused the target or exceeded a time limit.
    pub failed: i64,
    /// Names of the nodes that have started and not ended.
    pub in_flight: Vec<String>,
    /// Names of the nodes in flight that are cordoned and drained for the rollout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
    /// The nodes in flight of a rollout with an image version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<NodeReplacement>,
    /// The sizes of the pools of a rollout with an image version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, PoolSize>,
    /// Names of all nodes that failed. A failed node is not started again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
    /// Names and reasons of the first ten nodes that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<NodeFailure>,
    /// What the rollout waits for; none if it works or has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitingFor>,
    /// Expected end, in RFC 3339; none while no wave has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
    /// When its first node started, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The phase of a rollout.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RolloutPhase {
    /// Not planned yet, or its references do not resolve.
    #[default]
    Pending,
    /// Nodes are changed, or it waits for a window, an approval or a budget.
    Progressing,
    /// All nodes are updated.
    Complete,
    /// The failure limit was reached; no node is in flight.
    Halted,
    /// The updated nodes return to the previous target.
    RollingBack,
    /// The nodes are on the previous target again.
    RolledBack,
    /// A person ended it.
    Aborted,
}

impl RolloutPhase {
    /// Whether the rollout has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Halted | Self::RolledBack | Self::Aborted)
    }

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Progressing => "Progressing",
            Self::Complete => "Complete",
            Self::Halted => "Halted",
            Self::RollingBack => "RollingBack",
            Self::RolledBack => "RolledBack",
            Self::Aborted => "Aborted",
        }
    }
}

/// Nodes by the effect of the change on them.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanCounts {
    /// Already up to date.
    pub none: i64,
    /// Changed while the pods run.
    pub in_place: i64,
    /// Drained first.
    pub drain: i64,
    /// Drained and rebooted.
    pub reboot: i64,
    /// Cannot be changed; a new node is required.
    pub replace: i64,
    /// The document in force is not a NodeConfig of the cluster, so the effect is known only when the node reports it.
    pub unknown: i64,
}

/// The size of a pool whose nodes are replaced.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSize {
    /// Number of machines at the end. It follows others who change the capacity of the pool.
    pub wanted: i64,
    /// The highest number of machines that the rollout asked for.
    pub largest: i64,
}

/// A node that is being replaced by a new machine.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeReplacement {
    /// Name of the old node.
    pub node: String,
    /// Name of its Pool.
    pub pool: String,
    /// Number of its wave, starting at 1.
    pub wave: u32,
    /// When its replacement began, in RFC 3339.
    pub since: String,
    /// Whether it is drained, and its machine is being deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
}

/// One wave.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaveStatus {
    /// Number of nodes.
    pub size: i64,
    /// Updated nodes.
    pub done: i64,
    /// Failed nodes.
    pub failed: i64,
    pub verdict: Verdict,
    /// When its first node started, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its last node was updated; the soak time starts then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_at: Option<String>,
}

/// The verdict on a wave.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    #[default]
    Waiting,
    Running,
    Soaking,
    Passed,
    Failed,
}

/// What a rollout waits for.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    pub reason: WaitReason,
    /// A sentence that says what to do, if a person has to.
    pub message: String,
    /// When it ends by itself, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Names of the nodes, freezes, rollouts or other objects that it waits for; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
}

/// Why a rollout does not start another node.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitReason {
    /// Nodes in flight.
    #[default]
    Nodes,
    Soak,
    Gate,
    Budget,
    Window,
    Approval,
    Paused,
    Freeze,
    /// Another rollout has nodes of the same pool.
    OtherRollout,
    /// An object that it names does not exist or is invalid.
    Reference,
    /// The pool has no nodes.
    NoNodes,
    /// The change needs a drain, a reboot or a new node, which `replacement` or the factory does not allow.
    Replacement,
}

/// A node that failed.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFailure {
    pub node: String,
    pub reason: String,
}
