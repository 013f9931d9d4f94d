//! The request and the result of a push.

use std::fmt;

use kiln_fleet_api::{NodeFailure, RolloutPolicySpec};
use kiln_node_config::NodeConfig;
use kiln_types::PoolName;
use serde::{Deserialize, Serialize};

/// A push, as the user requested it.
#[derive(Debug, Clone)]
pub struct PushRequest {
    pub pool: PoolName,
    pub document: NodeConfig,
    pub policy: RolloutPolicySpec,
    pub dry_run: bool,
}

/// How a push ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PushOutcome {
    /// Nothing was changed: `--dry-run`.
    Planned,
    /// The document is in force on all nodes, and new nodes get it.
    Complete,
    /// The failure limit was reached, and the instances have their earlier user data again.
    Reverted,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushReport {
    pub pool: PoolName,
    /// `metadata.generation` of the document.
    pub generation: u64,
    pub digest: String,
    pub outcome: PushOutcome,
    /// Number of nodes per wave.
    pub waves: Vec<i64>,
    /// Nodes on which the document is in force. Before a push, those that have it already.
    pub updated: Vec<String>,
    pub failed: Vec<NodeFailure>,
    /// Nodes and instances that do not have the document they should have, with the reasons.
    pub left: Vec<NodeFailure>,
}

impl fmt::Display for PushReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, generation, digest, outcome, waves, updated, failed, left } = self;
        let digest = digest.get(..12).unwrap_or(digest);
        match outcome {
            PushOutcome::Planned => {
                let sizes: Vec<String> = waves.iter().map(ToString::to_string).collect();
                let sizes = if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") };
                writeln!(f, "{pool}: generation {generation} ({digest}) would be pushed in waves of: {sizes}")?;
            }
            PushOutcome::Complete => {
                let count = updated.len();
                writeln!(
                    f,
                    "{pool}: generation {generation} ({digest}) is in force on {count} nodes; new nodes get it"
                )?;
            }
            PushOutcome::Reverted => {
                writeln!(
                    f,
                    "{pool}: generation {generation} ({digest}) failed; the instances have their earlier user data"
                )?;
            }
        }
        for NodeFailure { node, reason } in failed {
            writeln!(f, "  {node} failed: {reason}")?;
        }
        left.iter().try_for_each(|NodeFailure { node, reason }| writeln!(f, "  {node}: {reason}"))
    }
}
