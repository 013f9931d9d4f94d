//! The custom resources of the fleet in `node.kiln.dev/v1alpha1`, all cluster-scoped.
//!
//! A [`Rollout`] brings one target, a [`NodeConfig`], to the nodes of some [`Pool`]s. Its rules are a [`RolloutPolicy`]. While a
//! [`Freeze`] exists, no new work starts. A [`Prototype`] creates image versions of a pool, an [`ImageVersion`] is the record of one, and a Rollout with an
//! image version replaces the nodes of its pool. Each node has a [`NodeState`]: the operator writes its spec, the node's kilnd its status.
//!
//! The types are values with schemas; they contain no client. The YAML of the definitions ([`definitions`]) is generated from them and is part of
//! the chart.

#![expect(unreachable_pub, reason = "`KubeSchema` repeats a struct inside a function")]

mod definitions;
mod freeze;
mod image_version;
mod node_config;
mod node_state;
mod policy;
mod pool;
mod prototype;
mod reference;
mod rollout;
mod yaml_text;

pub use definitions::{definitions, yaml};
pub use freeze::{Freeze, FreezeSpec, FreezeStatus};
pub use image_version::{ImageVersion, ImageVersionSpec, ImageVersionStatus, Rejection};
pub use kiln_node_config::Effect;
pub use kiln_node_config::node_state::{
    BootTimes, Condition, Current, Desired, GateStatus, NodeStateSpec, NodeStateStatus, Phase, RequestedAction,
    Requests, Reverted,
};
pub use node_config::{NodeConfig, NodeConfigSpec, NodeConfigStatus};
pub use node_state::NodeState;
pub use policy::{
    Amount, Approval, BadAmount, Budget, Domains, FailureLimits, FirstWave, GatePolicy, PrometheusGate, RolloutPolicy,
    RolloutPolicySpec, RolloutPolicyStatus, ThenWaves, Waves, Window,
};
pub use pool::{Pool, PoolFactory, PoolImage, PoolSpec, PoolStatus};
pub use prototype::{
    CanaryPolicy, DonorPolicy, Prototype, PrototypeRun, PrototypeSpec, PrototypeStatus, RUN_REQUESTED_AT, RunOutcome,
    RunSchedule,
};
pub use reference::reference_page;
pub use rollout::{
    NodeFailure, NodeReplacement, OnFailure, PlanCounts, PoolSize, Replacement, Rollout, RolloutPhase, RolloutSpec,
    RolloutStatus, Target, Verdict, WaitReason, WaitingFor, WaveStatus,
};

/// Group of the resources.
pub const GROUP: &str = "node.kiln.dev";
/// Version of the resources.
pub const VERSION: &str = "v1alpha1";

/// Types of the conditions that kstatus, Flux and Argo CD read.
pub mod condition {
    /// The object is in its desired state.
    pub const READY: &str = "Ready";
    /// The controller works on it.
    pub const RECONCILING: &str = "Reconciling";
    /// A person has to change something.
    pub const STALLED: &str = "Stalled";
}
