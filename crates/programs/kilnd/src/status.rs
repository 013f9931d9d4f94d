//! The status: the result of the last command, in one JSON file that is replaced atomically.
//!
//! It names the generation in force and what is pending. It contains no values of the document and no secrets.

use kiln_node_config::Effect;
use kiln_node_config::node_state::Desired;
use kiln_node_plan::{Generation, Rejection, State};
use serde::{Deserialize, Serialize};

/// The version of the format. Adding a field does not change it; renaming a field or changing its meaning does.
pub const SCHEMA: u32 = 2;

/// The result of the last command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program and its version.
    pub program: String,
    /// The command that wrote the status.
    pub command: String,
    pub outcome: Outcome,
    /// `first`, `clone` or `again`; absent if `kilnd identity` did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The generation in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// Whether the generation in force is on trial.
    #[serde(default)]
    pub on_trial: bool,
    /// The generation to which kilnd reverts if the trial fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Generation>,
    /// The costliest effect of the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
    /// Requests to the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The error and its causes, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// A hint for the person on call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Documents that are not applied again automatically.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejection>,
    /// The NodeState that the node follows. Only `kilnd status` reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_state: Option<FollowedNodeState>,
    /// What pods cannot reach. Only `kilnd status` reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_blocks: Option<PodBlocks>,
    /// The executed steps, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepTime>,
}

/// The result of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// There was nothing to do.
    #[default]
    Unchanged,
    Applied,
    /// The committed generation was verified and is in force.
    Verified,
    /// The document waits for the cluster; nothing that needs it was done.
    Requested,
    /// An earlier generation is in force again.
    Reverted,
    /// The generation in force did not change.
    Failed,
}

/// The NodeState that a node follows. While it assigns a document, user data is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FollowedNodeState {
    pub name: String,
    /// The assigned document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Desired>,
    /// Why the assigned document is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What pods cannot reach, and the pods that can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodBlocks {
    /// `metadata service`, `wire server`.
    pub services: Vec<String>,
    /// Pods on the host network, as `namespace/name`. Nothing is blocked for them, because their packets are the node's own.
    pub exempt: Vec<String>,
}

/// A changed field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    pub path: String,
    pub effect: Effect,
}

/// An executed step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTime {
    pub name: String,
    /// Microseconds since boot, including time in suspension.
    pub started_usec: u64,
    pub took_usec: u64,
    pub ok: bool,
}

impl Status {
    /// The status of a command.
    pub fn new(command: &str, outcome: Outcome, state: &State) -> Self {
        Self {
            schema: SCHEMA,
            program: concat!("kilnd ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: command.to_owned(),
            outcome,
            generation: state.in_force().cloned(),
            on_trial: state.trial.is_some(),
            previous: state.trial.as_ref().and(state.committed.clone()),
            rejected: state.rejected.clone(),
            ..Self::default()
        }
    }

    /// The content of the status file.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("status has string keys");
        text.push(b'\n');
        text
    }

    /// The status for people.
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        match &self.generation {
            Some(now) => lines.push(format!(
                "generation {} ({}), from {}{}",
                now.number,
                short(&now.hash),
                now.source,
                if self.on_trial { ", on trial" } else { "" }
            )),
            None => lines.push("no generation is in force".to_owned()),
        }
        if let Some(previous) = &self.previous {
            lines.push(format!("previous: generation {} ({})", previous.number, short(&previous.hash)));
        }
        if let Some(effect) = self.effect {
            lines.push(format!("effect: {effect}"));
        }
        lines.extend(self.changed.iter().map(|change| format!("changed: {} ({})", change.path, change.effect)));
        lines.extend(self.pending.iter().map(|request| format!("pending: {request}")));
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(self.failures.iter().map(|failure| format!("failed: {failure}")));
        lines.extend(self.rejected.iter().map(|one| format!("rejected: generation {}: {}", one.number, one.reason)));
        if let Some(followed) = &self.node_state {
            lines.push(followed.to_text());
        }
        if let Some(blocks) = &self.pod_blocks {
            lines.push(format!("blocked for pods: {}", blocks.services.join(", ")));
            lines.extend(blocks.exempt.iter().map(|pod| format!("not blocked: {pod} (host network)")));
        }
        lines.extend(self.next.iter().map(|next| format!("hint: {next}")));
        lines.push(String::new());
        lines.join("\n")
    }
}

impl FollowedNodeState {
    fn to_text(&self) -> String {
        let assigned = match &self.desired {
            None => "no document; user data counts".to_owned(),
            Some(Desired { node_config, digest, rollout, .. }) => {
                let rollout = if rollout.is_empty() { String::new() } else { format!(", rollout {rollout}") };
                format!("NodeConfig {node_config} ({}){rollout}; user data is ignored", short(digest))
            }
        };
        let failure = self.failure.as_ref().map(|why| format!("\nnot in force: {why}")).unwrap_or_default();
        format!("NodeState {} assigns {assigned}{failure}", self.name)
    }
}

/// As much of a hash as people compare.
pub(crate) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_the_generation_in_force_and_the_previous_one() {
        let generation = |number: u64| Generation {
            number,
            hash: format!("h{number}"),
            folder: number.to_string(),
            source: "imds".to_owned(),
        };
        let mut state = State::default();
        state.start_trial(generation(1), "boot");
        assert_eq!(Status::new("boot", Outcome::Applied, &state).previous, None);
        state.commit();
        state.start_trial(generation(2), "boot");
        let mut status = Status::new("apply", Outcome::Applied, &state);
        status.next = Some("wait".to_owned());
        assert_eq!(
            status.to_text(),
            "generation 2 (h2), from imds, on trial\nprevious: generation 1 (h1)\nhint: wait\n"
        );
        assert_eq!(serde_json::from_slice::<Status>(&status.to_json()).expect("json"), status);
    }

    #[test]
    fn status_shows_the_node_state_and_what_it_assigns() {
        let mut status = Status::new("status", Outcome::Unchanged, &State::default());
        let mut followed = FollowedNodeState { name: "node-1".to_owned(), ..FollowedNodeState::default() };
        status.node_state = Some(followed.clone());
        assert!(status.to_text().contains("NodeState node-1 assigns no document; user data counts\n"));
        followed.desired = Some(Desired {
            node_config: "web".to_owned(),
            digest: "0123456789abcdef".to_owned(),
            rollout: "r".to_owned(),
            ..Desired::default()
        });
        followed.failure = Some("invalid".to_owned());
        status.node_state = Some(followed);
        let expected = "NodeState node-1 assigns NodeConfig web (0123456789ab), rollout r; user data is ignored\nnot in force: invalid\n";
        assert!(status.to_text().contains(expected), "{}", status.to_text());
    }
}
