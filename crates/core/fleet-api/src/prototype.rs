//! Prototype runs of a pool.

use kiln_node_config::node_state::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Creates image versions of a pool from its patched nodes, as `kiln prototype auto-update` does. The annotation `node.kiln.dev/run-requested-at` starts a run
/// at once when its value changes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "Prototype",
    plural = "prototypes",
    shortname = "kproto",
    status = "PrototypeStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Pool", "type": "string", "jsonPath": ".spec.pool"}"#,
    printcolumn = r#"{"name": "Last-Run", "type": "string", "jsonPath": ".status.lastRun.outcome"}"#,
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.lastRun.imageVersion"}"#,
    printcolumn = r#"{"name": "Next-Run", "type": "string", "jsonPath": ".status.nextRun"}"#,
    printcolumn = r#"{"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("self.pool == oldSelf.pool").message("the pool of a Prototype never changes; create another Prototype"))]
pub struct PrototypeSpec {
    /// Name of the Pool. It must have a `factory`.
    #[schemars(length(min = 1))]
    pub pool: String,
    pub donor: DonorPolicy,
    /// When runs start. Without it, only the annotation starts runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<RunSchedule>,
    #[serde(default)]
    pub canary: CanaryPolicy,
    /// Number of usable image versions to keep.
    #[serde(default = "default_history")]
    #[schemars(range(min = 2, max = 100))]
    pub history: u32,
    /// Accepts that the pool's original recipe cannot be saved, so that `kiln prototype rollback --to original` is impossible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_original: bool,
    /// Starts no run. A run that is open is finished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

fn default_history() -> u32 {
    3
}

/// Which node becomes the donor.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DonorPolicy {
    /// The annotation of a node with the time of its last patch. kured's is `weave.works/kured-most-recent-reboot-needed`.
    #[schemars(length(min = 1))]
    pub last_patch_annotation: String,
    /// The annotation of a node with a pending reboot. kured's is `weave.works/kured-reboot-in-progress`.
    #[schemars(length(min = 1))]
    pub pending_reboot_annotation: String,
    /// Nodes with one of these annotations are not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_annotations: Vec<String>,
    /// Names of nodes that are not chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_nodes: Vec<String>,
    /// How long the donor must have been Ready, such as `1h`. Default: `1m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_ready_time: Option<String>,
    /// Number of nodes that must be suitable before one is chosen. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub minimum_candidates: Option<u32>,
    /// Days after which a version is created even from a node without a newer patch. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_image_age: Option<u32>,
}

/// When runs start.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSchedule {
    /// Days: `Mon` to `Sun`, or ranges such as `Mon-Thu`. Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$")))]
    pub days: Vec<String>,
    /// Time of the day as `HH:MM`.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub at: String,
    /// Name in the time zone database, such as `Europe/Berlin`; `UTC` if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
}

/// How a version is proven before new machines get it.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryPolicy {
    /// Includes versions without a canary. No Rollout accepts such a version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skip: bool,
    /// How long the canary has to stay Ready, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<String>,
    /// Size of the canary; by default the pool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Availability zone of the canary; by default one of the pool's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Name of a Secret in the operator's namespace with the pool's `customData` and `protectedSettings`, for a canary that joins by the recipe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Keeps a canary that failed; `kiln prototype gc` deletes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_on_failure: bool,
}

/// What happened, and what comes next.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrototypeStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The last run that the operator started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_run: Option<PrototypeRun>,
    /// When the next run of the schedule starts, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_run: Option<String>,
    /// Value of the annotation `node.kiln.dev/run-requested-at` that was answered last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub handled_request: String,
    /// The node that the last run chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub donor: Option<String>,
    /// Why the last run chose no donor, or why donors were refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One run.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PrototypeRun {
    /// When the operator started it, in RFC 3339.
    pub started: String,
    /// When it ended, in RFC 3339; none while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    pub outcome: RunOutcome,
    /// Number of the version that it created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_version: Option<String>,
    pub message: String,
}

/// How a run ended.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// It has not ended.
    #[default]
    Running,
    /// New machines get the version.
    Completed,
    /// No suitable donor, or a blocker; nothing was changed.
    Skipped,
    /// A step failed; all holds are released.
    Failed,
    /// The canary failed; new machines do not get the version.
    Rejected,
    /// The run is open and needs a person.
    Stuck,
}

impl RunOutcome {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Skipped => "Skipped",
            Self::Failed => "Failed",
            Self::Rejected => "Rejected",
            Self::Stuck => "Stuck",
        }
    }
}

/// Annotation of a Prototype that starts a run at once when its value changes.
pub const RUN_REQUESTED_AT: &str = "node.kiln.dev/run-requested-at";
