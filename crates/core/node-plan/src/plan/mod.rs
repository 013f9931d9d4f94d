//! The plan: the steps from the observed state to the desired one, in order, and only for what differs. A
//! rollback is not the reverse of a plan but a new plan to the earlier document, made from what is observed then.

mod order;
mod request;
mod services;
mod step;

use kiln_node_config::changes::{self, Change};
use kiln_node_config::{Effect, NodeConfig};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

pub use request::Request;
pub use services::unit_for_path;
pub use step::Step;

use crate::desired::Desired;
use crate::effects::weigh;
use crate::file::DesiredFile;
use crate::manifest::Manifest;
use crate::observed::Observed;

/// The costliest effect that a node may have by itself if `spec.update.upTo` is not set.
const UP_TO: Effect = Effect::Restart;

/// The steps from the observed state to the desired one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Fields that differ from the document in force; empty without one.
    pub changes: Vec<Change>,
    /// The costliest effect of the changes; none for the first document.
    pub effect: Effect,
    pub steps: Vec<Step>,
    /// Steps that wait until the kubelet runs.
    pub deferred: Vec<Step>,
    pub requests: Vec<Request>,
    /// Changes that cost more than the document allows the node, or that no running node can make.
    pub beyond: Vec<Change>,
    pub manifest: Manifest,
    paused: bool,
}

/// The next action for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    Nothing,
    /// The node applies the steps.
    Apply,
    /// The node waits until the cluster grants the requests.
    Request,
    /// `spec.update.paused` is set: the plan is only reported.
    Paused,
}

impl Plan {
    /// Plans the change from the document in force, if any, to `wanted`, whose desired state is `desired`.
    pub fn new(in_force: Option<&NodeConfig>, wanted: &NodeConfig, desired: &Desired, observed: &Observed) -> Self {
        let between = |from| changes::between(from, wanted).into_iter().map(weigh).collect();
        let changes: Vec<Change> = in_force.map_or_else(Vec::new, between);
        let effect = changes::highest_effect(&changes);
        let allowed = wanted.spec.update.up_to.unwrap_or(UP_TO);
        let beyond: Vec<Change> = changes.iter().filter(|change| is_beyond(change.effect, allowed)).cloned().collect();
        let highest = beyond.iter().map(|change| change.effect).max();
        let manifest = Manifest::next(desired, observed);
        let (steps, deferred) = order::steps(in_force, wanted, desired, observed, effect);
        let mut requests = request::requests(in_force, wanted, highest);
        if beyond.is_empty() && needs_reboot(desired, observed) {
            requests.push(Request::Reboot);
        }
        Self {
            changes,
            effect,
            steps,
            deferred,
            requests,
            beyond,
            manifest,
            paused: wanted.spec.update.paused && in_force.is_some(),
        }
    }

    /// The next action for this plan.
    pub fn action(&self) -> PlanAction {
        if self.is_empty() {
            PlanAction::Nothing
        } else if self.paused {
            PlanAction::Paused
        } else if self.beyond.is_empty() {
            PlanAction::Apply
        } else {
            PlanAction::Request
        }
    }

    /// Whether the machine is already as desired.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.deferred.is_empty()
    }

    /// Every file of the generation's folder, sorted by path.
    pub fn folder(&self, desired: &Desired) -> Vec<DesiredFile> {
        let mut files = desired.files.clone();
        files.push(self.manifest.to_file());
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// Whether the running kernel lacks a desired argument.
fn needs_reboot(desired: &Desired, observed: &Observed) -> bool {
    let Some(line) = &observed.command_line else { return false };
    let words: Vec<&str> = line.split_whitespace().collect();
    desired.kernel_arguments.iter().any(|argument| !words.contains(&argument.as_str()))
}

/// Labels and taints are requested and delay nothing else. A change that needs a new node is beyond every node.
fn is_beyond(effect: Effect, allowed: Effect) -> bool {
    effect == Effect::Replace || (effect > allowed && effect != Effect::Cluster)
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |steps: &[Step]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
        let beyond: Vec<&str> = self.beyond.iter().map(|change| change.path.as_str()).collect();
        let mut plan = serializer.serialize_struct("Plan", 6)?;
        plan.serialize_field("changes", &self.changes)?;
        plan.serialize_field("effect", &self.effect)?;
        plan.serialize_field("steps", &text(&self.steps))?;
        plan.serialize_field("deferred", &text(&self.deferred))?;
        plan.serialize_field("requests", &self.requests)?;
        plan.serialize_field("beyond", &beyond)?;
        plan.end()
    }
}
