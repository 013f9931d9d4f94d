//! From what is to what should be: only what differs, in order. The way back is the plan back, made from what is then observed.

mod ask;
mod order;
mod services;
mod step;

use kiln_node_config::changes::{self, Change};
use kiln_node_config::{Effect, NodeConfig};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

pub use ask::Ask;
pub use step::Step;

use crate::artifact::Artifact;
use crate::desired::Desired;
use crate::effects::weigh;
use crate::manifest::Manifest;
use crate::observed::Observed;

/// How far a node changes itself where its document does not say.
const UP_TO: Effect = Effect::Restart;

/// From what is to what should be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What differs from the document in force; nothing where there is none.
    pub changes: Vec<Change>,
    /// The costliest of these; a node that has no document yet pays nothing.
    pub effect: Effect,
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// What to do after that, when the kubelet runs.
    pub late: Vec<Step>,
    /// What needs the cluster.
    pub asks: Vec<Ask>,
    /// Changes that the document does not let the node bring about by itself, or that no running node can.
    pub beyond: Vec<Change>,
    /// What the generation will remember.
    pub manifest: Manifest,
    paused: bool,
}

/// What to do with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to do.
    Nothing,
    /// The steps are for the node to take.
    Apply,
    /// Nothing is done until the cluster allows it.
    Ask,
    /// The document says to report only.
    Paused,
}

impl Plan {
    /// The plan from the document in force, if there is one, to another. `desired` is what the wanted one asks for.
    pub fn of(in_force: Option<&NodeConfig>, wanted: &NodeConfig, desired: &Desired, observed: &Observed) -> Self {
        let between = |from| changes::between(from, wanted).into_iter().map(weigh).collect();
        let changes: Vec<Change> = in_force.map_or_else(Vec::new, between);
        let effect = changes::highest_effect(&changes);
        let allowed = wanted.spec.update.up_to.unwrap_or(UP_TO);
        let beyond: Vec<Change> = changes.iter().filter(|change| is_beyond(change.effect, allowed)).cloned().collect();
        let highest = beyond.iter().map(|change| change.effect).max();
        let manifest = Manifest::next(desired, observed);
        let (steps, late) = order::steps(in_force, wanted, desired, observed, effect);
        let mut asks = ask::asks(in_force, wanted, highest);
        if beyond.is_empty() && waits_for_start(desired, observed) {
            asks.push(Ask::Reboot);
        }
        Self {
            changes,
            effect,
            steps,
            late,
            asks,
            beyond,
            manifest,
            paused: wanted.spec.update.paused && in_force.is_some(),
        }
    }

    /// What to do with it.
    pub fn verdict(&self) -> Verdict {
        if self.is_empty() {
            Verdict::Nothing
        } else if self.paused {
            Verdict::Paused
        } else if self.beyond.is_empty() {
            Verdict::Apply
        } else {
            Verdict::Ask
        }
    }

    /// Whether nothing is to be done on the machine.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.late.is_empty()
    }

    /// Every file of the generation's folder, sorted.
    pub fn folder(&self, desired: &Desired) -> Vec<Artifact> {
        let mut files = desired.files.clone();
        files.push(self.manifest.artifact());
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// Whether the kernel runs without an argument that it is to have.
fn waits_for_start(desired: &Desired, observed: &Observed) -> bool {
    let Some(line) = &observed.command_line else { return false };
    let words: Vec<&str> = line.split_whitespace().collect();
    desired.kernel_arguments.iter().any(|argument| !words.contains(&argument.as_str()))
}

/// What the cluster does to the node's object is asked for and holds up nothing else. What needs a new node is beyond every node.
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
        plan.serialize_field("late", &text(&self.late))?;
        plan.serialize_field("asks", &self.asks)?;
        plan.serialize_field("beyond", &beyond)?;
        plan.end()
    }
}
