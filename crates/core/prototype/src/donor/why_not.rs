//! The rules, and which of them a node breaks.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use kiln_types::{
    ImageDefinition, ImageVersion, Instance, Pool, PowerState, Provisioning, VersionNumber, VersionState,
};
use serde::{Serialize, Serializer};

use super::node::NodeFacts;
use crate::back::{self, Patch, SamePatch, Suspect, same_patch};
use crate::latest::version_of;
use crate::provenance::lineage;
use crate::ready_time::{Span, spoken};

/// What a person asks of a donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DonorRules {
    /// A node with this annotation waits for a reboot.
    pub pending_reboot_annotation: String,
    /// The annotation with the day of a node's last patch.
    pub last_patch_annotation: String,
    /// A node with one of these annotations is left alone.
    pub ignore_annotations: Vec<String>,
    /// These nodes are left alone.
    pub ignore_nodes: Vec<String>,
    /// How long it must have been Ready.
    pub minimum_ready: Span,
    /// How many nodes must fit before one is taken.
    pub minimum_candidates: u32,
    /// Days after which an image is renewed even from a node without a newer patch; 0 for never.
    pub maximum_image_age: u32,
}

impl DonorRules {
    /// kamino's rules, with the two annotations that it has no default for.
    pub fn new(pending_reboot_annotation: &str, last_patch_annotation: &str) -> Self {
        Self {
            pending_reboot_annotation: pending_reboot_annotation.to_owned(),
            last_patch_annotation: last_patch_annotation.to_owned(),
            ignore_annotations: Vec::new(),
            ignore_nodes: Vec::new(),
            minimum_ready: Span::from_secs(60),
            minimum_candidates: 1,
            maximum_image_age: 0,
        }
    }
}

/// What a pool's nodes are judged against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub pool: &'a Pool,
    pub instances: &'a [Instance],
    /// Its line, once there is one.
    pub line: Option<&'a ImageDefinition>,
    pub versions: &'a [ImageVersion],
    /// The node that this program runs on.
    pub own_node: Option<&'a str>,
    /// The run that asks, when it is one that goes on.
    pub own_run: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

impl Surroundings<'_> {
    /// The newest version, usable or not: what a patch must be newer than. A version that was taken back and deleted counts, or the patch
    /// that it was made of would look new again.
    pub fn bar(&self) -> Option<VersionNumber> {
        let bad = self.line.map(|line| back::numbers(&line.tags)).unwrap_or_default();
        // One that failed was never an image of anything.
        let made = self.versions.iter().filter(|version| version.state != VersionState::Failed);
        made.map(|version| &version.number).chain(&bad).max().cloned()
    }

    /// Versions that nobody is to get: taken back by us, or excluded by whoever.
    fn bad(&self) -> BTreeSet<VersionNumber> {
        let excluded = self.versions.iter().filter(|version| version.excluded).map(|version| version.number.clone());
        excluded.chain(self.line.map(|line| back::numbers(&line.tags)).unwrap_or_default()).collect()
    }
}

/// Why a node is not cloned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    /// It is of another pool.
    OtherPool,
    /// This program runs on it.
    OwnNode,
    /// A person said so.
    Ignored,
    /// No pod is scheduled to it.
    Cordoned,
    /// It is of the control plane.
    ControlPlane,
    /// It has an annotation that says so.
    IgnoreAnnotation(String),
    /// It waits for a reboot.
    PendingReboot,
    /// It does not say when it was patched.
    PatchUnknown,
    /// What it says of its patch holds no day.
    PatchUnreadable(String),
    /// Its patch is not newer than the newest version.
    PatchOld {
        /// The day of the patch.
        patched: Date,
        /// The newest version.
        bar: VersionNumber,
    },
    /// It is not Ready.
    NotReady,
    /// It does not say since when it is Ready.
    ReadyUnknown,
    /// It has not been Ready for long enough.
    ReadyTooShort {
        /// How long it has been.
        has: Span,
        /// How long it must have been.
        least: Span,
    },
    /// It runs Windows.
    Windows,
    /// Nothing ties it to a machine.
    NoProviderId,
    /// Its machine is not among the pool's.
    NoInstance,
    /// Its machine is not well.
    Instance(String),
    /// A run holds it.
    HeldBy(String),
    /// It comes from a version that was taken back.
    BadAncestor(VersionNumber),
    /// It would bring back what was taken back.
    SamePatch(SamePatch),
}

impl WhyNot {
    /// Whether it is left out of account once the image is too old.
    pub fn is_of_patch(&self) -> bool {
        matches!(self, Self::PatchUnknown | Self::PatchUnreadable(_) | Self::PatchOld { .. })
    }
}

/// Every rule that a node breaks. A node of another pool breaks that one only.
pub fn judge(node: &NodeFacts, rules: &DonorRules, around: Surroundings<'_>) -> Vec<WhyNot> {
    let instance = around.instances.iter().find(|instance| instance.node_name == node.name);
    if instance.is_none() && !is_named_after(node, around.pool) {
        return vec![WhyNot::OtherPool];
    }
    let annotated = |key: &String| node.annotations.contains_key(key);
    let mut broken = Vec::new();
    let mut rule = |breaks: bool, why: WhyNot| {
        if breaks {
            broken.push(why);
        }
    };
    rule(node.windows, WhyNot::Windows);
    rule(node.is_control_plane(), WhyNot::ControlPlane);
    rule(around.own_node == Some(node.name.as_str()), WhyNot::OwnNode);
    rule(rules.ignore_nodes.contains(&node.name), WhyNot::Ignored);
    for key in rules.ignore_annotations.iter().filter(|key| annotated(key)) {
        rule(true, WhyNot::IgnoreAnnotation(key.clone()));
    }
    let holder = node.held_by.as_deref().filter(|run| around.own_run != Some(run));
    rule(holder.is_some(), WhyNot::HeldBy(holder.unwrap_or_default().to_owned()));
    // A hold cordons: one reason is enough.
    rule(node.cordoned && node.held_by.is_none(), WhyNot::Cordoned);
    rule(annotated(&rules.pending_reboot_annotation), WhyNot::PendingReboot);
    rule(node.provider_id.as_deref().is_none_or(str::is_empty), WhyNot::NoProviderId);
    match (node.ready, node.ready_for()) {
        (false, _) => rule(true, WhyNot::NotReady),
        (true, None) => rule(true, WhyNot::ReadyUnknown),
        (true, Some(has)) => {
            rule(has < rules.minimum_ready, WhyNot::ReadyTooShort { has, least: rules.minimum_ready });
        }
    }
    broken.extend(patch_rule(node, rules, around));
    broken.extend(machine_rule(instance));
    broken.extend(past_rule(node, instance, around));
    broken
}

/// The day of a node's last patch: the first `YYYY-MM-DD` in the annotation, as kamino reads it.
pub(super) fn patched(node: &NodeFacts, rules: &DonorRules) -> Option<Date> {
    let text = node.annotations.get(&rules.last_patch_annotation)?;
    let windows = text.as_bytes().windows("YYYY-MM-DD".len());
    windows.filter_map(|window| std::str::from_utf8(window).ok()).find_map(|window| {
        let shape = window.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        shape.then(|| window.parse().ok()).flatten()
    })
}

fn patch_rule(node: &NodeFacts, rules: &DonorRules, around: Surroundings<'_>) -> Option<WhyNot> {
    let Some(text) = node.annotations.get(&rules.last_patch_annotation) else { return Some(WhyNot::PatchUnknown) };
    let Some(patched) = patched(node, rules) else { return Some(WhyNot::PatchUnreadable(text.clone())) };
    let bar = around.bar()?;
    let number = |part: i16| u32::try_from(part).unwrap_or(0);
    let day = [number(patched.year()), number(patched.month().into()), number(patched.day().into())];
    (day <= bar.parts()).then_some(WhyNot::PatchOld { patched, bar })
}

fn machine_rule(instance: Option<&Instance>) -> Option<WhyNot> {
    let Some(instance) = instance else { return Some(WhyNot::NoInstance) };
    let state = match &instance.provisioning {
        Provisioning::Succeeded => None,
        Provisioning::InProgress(word) => Some(format!("its machine is being changed ({word})")),
        Provisioning::Failed | Provisioning::Canceled => Some("the last change of its machine failed".to_owned()),
    };
    let power =
        (instance.power != PowerState::Running).then(|| format!("its machine is {:?}", instance.power).to_lowercase());
    state.or(power).map(WhyNot::Instance)
}

fn past_rule(node: &NodeFacts, instance: Option<&Instance>, around: Surroundings<'_>) -> Option<WhyNot> {
    let line = around.line?;
    let runs = instance.and_then(|instance| version_of(&instance.runs, &line.name));
    let bad = around.bad();
    if let Some(ancestor) = runs.and_then(|runs| lineage(runs, around.versions).into_iter().find(|v| bad.contains(v))) {
        return Some(WhyNot::BadAncestor(ancestor));
    }
    let known = back::known(&line.tags, around.versions);
    same_patch(&Patch::of_node(node), known.iter().map(Suspect::from)).map(WhyNot::SamePatch)
}

/// A node whose machine is gone still bears its pool's name.
fn is_named_after(node: &NodeFacts, pool: &Pool) -> bool {
    crate::node_name::instance_of(&node.name).is_ok_and(|(named, _)| named == pool.name)
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherPool => f.write_str("of another pool"),
            Self::OwnNode => f.write_str("this program runs on it"),
            Self::Ignored => f.write_str("named by `--ignore-nodes`"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::ControlPlane => f.write_str("of the control plane"),
            Self::IgnoreAnnotation(key) => write!(f, "has annotation `{key}`"),
            Self::PendingReboot => f.write_str("waits for a reboot"),
            Self::PatchUnknown => f.write_str("does not say when it was patched"),
            Self::PatchUnreadable(text) => write!(f, "says of its last patch `{text}`, which holds no YYYY-MM-DD"),
            Self::PatchOld { patched, bar } => write!(f, "patched {patched}, not later than version {bar}"),
            Self::NotReady => f.write_str("not Ready"),
            Self::ReadyUnknown => f.write_str("does not say since when it is Ready"),
            Self::ReadyTooShort { has, least } => {
                write!(f, "Ready for {}, less than {}", spoken(*has), spoken(*least))
            }
            Self::Windows => f.write_str("runs Windows"),
            Self::NoProviderId => f.write_str("has no provider id"),
            Self::NoInstance => f.write_str("its machine is not in the pool"),
            Self::Instance(why) => f.write_str(why),
            Self::HeldBy(run) => write!(f, "held by run {run}"),
            Self::BadAncestor(version) => write!(f, "descends from {version}, which was taken back"),
            Self::SamePatch(same) => same.fmt(f),
        }
    }
}

/// The text is what people and programs read; the variants are for tests and callers.
impl Serialize for WhyNot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "why_not_tests.rs"]
mod tests;
