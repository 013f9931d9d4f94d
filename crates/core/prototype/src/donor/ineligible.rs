//! The rules for a donor, and which of them a node breaks.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Date;
use kiln_types::{
    ImageDefinition, ImageVersion, Instance, Node, Pool, PowerState, Provisioning, VersionNumber, VersionState,
    instance_from_node_name,
};
use serde::{Serialize, Serializer};

use crate::latest::version_of;
use crate::provenance::ancestors_of;
use crate::rollback::{self, PatchLevel, RejectedEvidence, SamePatch, same_patch};
use crate::span::{Span, format_span};

/// The rules that the user sets for donors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DonorRules {
    /// A node with this annotation waits for a reboot.
    pub pending_reboot_annotation: String,
    /// The annotation with the day of a node's last patch.
    pub last_patch_annotation: String,
    /// Nodes with one of these annotations are skipped.
    pub ignore_annotations: Vec<String>,
    pub ignore_nodes: Vec<String>,
    /// How long a node must have been Ready.
    pub minimum_ready: Span,
    /// How many nodes must be eligible before one is chosen.
    pub minimum_candidates: u32,
    /// Days after which an image is renewed even from a node without a newer patch; 0 disables this.
    pub maximum_image_age: u32,
}

impl DonorRules {
    /// kamino's rules, with the two annotations for which it has no default.
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

/// The facts of a pool that its nodes are checked against.
#[derive(Debug, Clone, Copy)]
pub struct DonorInput<'a> {
    pub pool: &'a Pool,
    pub instances: &'a [Instance],
    /// The pool's image definition, if it exists.
    pub definition: Option<&'a ImageDefinition>,
    pub versions: &'a [ImageVersion],
    /// The versions that no canary has proven yet, see [`not_proven`](super::not_proven).
    pub not_proven: &'a BTreeSet<VersionNumber>,
    /// The node that this program runs on.
    pub own_node: Option<&'a str>,
    /// The run that is resumed.
    pub own_run: Option<&'a str>,
    pub now: Timestamp,
}

impl DonorInput<'_> {
    /// The newest version, usable or not: a patch must be newer. Rejected versions count even if they are deleted, otherwise the patch
    /// that they were created from would look new again. Versions that are not proven do not count, so that a later run uses their patch.
    pub fn newest_version(&self) -> Option<VersionNumber> {
        let is_open = |version: &ImageVersion| version.excluded && self.not_proven.contains(&version.number);
        // A failed version is not an image of anything.
        let created = self.versions.iter().filter(|version| version.state != VersionState::Failed && !is_open(version));
        created.map(|version| &version.number).chain(&self.rejected()).max().cloned()
    }

    fn rejected(&self) -> BTreeSet<VersionNumber> {
        self.definition.map(|definition| rollback::rejected_numbers(&definition.tags)).unwrap_or_default()
    }

    /// Versions that new nodes must not get: rejected by kiln, or excluded by anyone.
    fn unwanted(&self) -> BTreeSet<VersionNumber> {
        let excluded = self.versions.iter().filter(|version| version.excluded).map(|version| version.number.clone());
        excluded.chain(self.rejected()).collect()
    }
}

/// Why a node cannot be the donor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IneligibleReason {
    OtherPool,
    OwnNode,
    Ignored,
    Cordoned,
    ControlPlane,
    IgnoreAnnotation(String),
    PendingReboot,
    PatchUnknown,
    /// The annotation contains no date.
    PatchUnreadable(String),
    /// The patch is not newer than the newest version.
    PatchOld {
        patched: Date,
        newest: VersionNumber,
    },
    NotReady,
    ReadyUnknown,
    ReadyTooShort {
        ready_for: Span,
        minimum: Span,
    },
    Windows,
    NoProviderId,
    NoInstance,
    /// The instance is not running or is being changed.
    Instance(String),
    HeldBy(String),
    RejectedAncestor(VersionNumber),
    SamePatch(SamePatch),
}

impl IneligibleReason {
    /// Whether the reason is ignored once the image is too old.
    pub fn is_about_patch(&self) -> bool {
        matches!(self, Self::PatchUnknown | Self::PatchUnreadable(_) | Self::PatchOld { .. })
    }
}

/// How long a node has been Ready by its own report: from the last transition to the last heartbeat, as kamino counts.
pub(super) fn ready_for(node: &Node) -> Option<Span> {
    let (since, heartbeat) = (node.ready_since?, node.heartbeat?);
    node.is_ready().then(|| Span::between(since, heartbeat))
}

/// Every rule that a node breaks. For a node of another pool this is the only reason.
pub fn ineligible_reasons(node: &Node, rules: &DonorRules, input: DonorInput<'_>) -> Vec<IneligibleReason> {
    let instance = input.instances.iter().find(|instance| instance.node_name == node.name.as_str());
    if instance.is_none() && !is_named_after(node, input.pool) {
        return vec![IneligibleReason::OtherPool];
    }
    let annotated = |key: &String| node.annotations.contains_key(key);
    let mut reasons = Vec::new();
    let mut rule = |breaks: bool, reason: IneligibleReason| {
        if breaks {
            reasons.push(reason);
        }
    };
    rule(node.is_windows(), IneligibleReason::Windows);
    rule(node.is_control_plane(), IneligibleReason::ControlPlane);
    rule(input.own_node == Some(node.name.as_str()), IneligibleReason::OwnNode);
    rule(rules.ignore_nodes.iter().any(|name| name == node.name.as_str()), IneligibleReason::Ignored);
    for key in rules.ignore_annotations.iter().filter(|key| annotated(key)) {
        rule(true, IneligibleReason::IgnoreAnnotation(key.clone()));
    }
    let holder = node.held_by.as_deref().filter(|run| input.own_run != Some(run));
    rule(holder.is_some(), IneligibleReason::HeldBy(holder.unwrap_or_default().to_owned()));
    // A held node is also cordoned. One reason is enough.
    rule(node.cordoned && node.held_by.is_none(), IneligibleReason::Cordoned);
    rule(annotated(&rules.pending_reboot_annotation), IneligibleReason::PendingReboot);
    rule(node.provider_id.as_deref().is_none_or(str::is_empty), IneligibleReason::NoProviderId);
    match (node.is_ready(), ready_for(node)) {
        (false, _) => rule(true, IneligibleReason::NotReady),
        (true, None) => rule(true, IneligibleReason::ReadyUnknown),
        (true, Some(ready_for)) => {
            let minimum = rules.minimum_ready;
            rule(ready_for < minimum, IneligibleReason::ReadyTooShort { ready_for, minimum });
        }
    }
    reasons.extend(patch_rule(node, rules, input));
    reasons.extend(instance_rule(instance));
    reasons.extend(ancestry_rule(node, instance, input));
    reasons
}

/// The day of a node's last patch: the first `YYYY-MM-DD` in the annotation, as kamino reads it.
pub(super) fn patched(node: &Node, rules: &DonorRules) -> Option<Date> {
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

fn patch_rule(node: &Node, rules: &DonorRules, input: DonorInput<'_>) -> Option<IneligibleReason> {
    let Some(text) = node.annotations.get(&rules.last_patch_annotation) else {
        return Some(IneligibleReason::PatchUnknown);
    };
    let Some(patched) = patched(node, rules) else { return Some(IneligibleReason::PatchUnreadable(text.clone())) };
    let newest = input.newest_version()?;
    let number = |part: i16| u32::try_from(part).unwrap_or(0);
    let day = [number(patched.year()), number(patched.month().into()), number(patched.day().into())];
    (day <= newest.parts()).then_some(IneligibleReason::PatchOld { patched, newest })
}

fn instance_rule(instance: Option<&Instance>) -> Option<IneligibleReason> {
    let Some(instance) = instance else { return Some(IneligibleReason::NoInstance) };
    let state = match &instance.provisioning {
        Provisioning::Succeeded => None,
        Provisioning::InProgress(state) => Some(format!("its instance is being changed ({state})")),
        Provisioning::Failed | Provisioning::Canceled => Some("the last change of its instance failed".to_owned()),
    };
    let power =
        (instance.power != PowerState::Running).then(|| format!("its instance is {:?}", instance.power).to_lowercase());
    state.or(power).map(IneligibleReason::Instance)
}

fn ancestry_rule(node: &Node, instance: Option<&Instance>, input: DonorInput<'_>) -> Option<IneligibleReason> {
    let definition = input.definition?;
    let runs = instance.and_then(|instance| version_of(&instance.runs, &definition.name));
    let unwanted = input.unwanted();
    let mut ancestors = runs.map(|runs| ancestors_of(runs, input.versions)).unwrap_or_default().into_iter();
    if let Some(ancestor) = ancestors.find(|version| unwanted.contains(version)) {
        return Some(IneligibleReason::RejectedAncestor(ancestor));
    }
    let rejected = rollback::describe_rejected(&definition.tags, input.versions);
    same_patch(&PatchLevel::from_node(node), rejected.iter().map(RejectedEvidence::from))
        .map(IneligibleReason::SamePatch)
}

/// Whether a node has the pool's name, even if its instance no longer exists.
fn is_named_after(node: &Node, pool: &Pool) -> bool {
    instance_from_node_name(node.name.as_str()).is_ok_and(|(named, _)| named == pool.name)
}

impl fmt::Display for IneligibleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherPool => f.write_str("belongs to another pool"),
            Self::OwnNode => f.write_str("kiln runs on it"),
            Self::Ignored => f.write_str("named in `--ignore-nodes`"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::ControlPlane => f.write_str("control-plane node"),
            Self::IgnoreAnnotation(key) => write!(f, "has annotation `{key}`"),
            Self::PendingReboot => f.write_str("waits for a reboot"),
            Self::PatchUnknown => f.write_str("has no last-patch annotation"),
            Self::PatchUnreadable(text) => write!(f, "its last-patch annotation `{text}` contains no YYYY-MM-DD"),
            Self::PatchOld { patched, newest } => write!(f, "patched {patched}, not later than version {newest}"),
            Self::NotReady => f.write_str("not Ready"),
            Self::ReadyUnknown => f.write_str("does not report since when it is Ready"),
            Self::ReadyTooShort { ready_for, minimum } => {
                write!(f, "Ready for {}, less than {}", format_span(*ready_for), format_span(*minimum))
            }
            Self::Windows => f.write_str("runs Windows"),
            Self::NoProviderId => f.write_str("has no provider ID"),
            Self::NoInstance => f.write_str("the pool has no such instance"),
            Self::Instance(reason) => f.write_str(reason),
            Self::HeldBy(run) => write!(f, "held by run {run}"),
            Self::RejectedAncestor(version) => write!(f, "descends from version {version}, which was rejected"),
            Self::SamePatch(same) => same.fmt(f),
        }
    }
}

/// Serialises as the text that people read.
impl Serialize for IneligibleReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
#[path = "ineligible_tests.rs"]
mod tests;
