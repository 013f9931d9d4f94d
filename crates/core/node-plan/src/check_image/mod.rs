//! `check-image`: what is missing on an image or in the way, so that a machine created from it does not become a node.
//!
//! [`check()`] decides over a [`Tree`], a read-only view of a root folder, and returns a [`Report`]. Each rule is a module that reads what it
//! needs: [`units`] the effective unit files of kubelet and containerd, [`programs`], [`network`], [`agents`] that configure the machine as
//! well, and [`system`]. Which agent reports to the platform ([`agents::provisioning_agent`]) is the same knowledge.

pub mod agents;
mod network;
mod programs;
mod report;
mod system;
mod tree;
mod unit_file;
mod units;

pub use report::{Finding, Report, SCHEMA, Severity};
pub use tree::{Entry, EntryKind, Tree};
pub use unit_file::{Setting, UnitFile};

/// The kind of the root folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// A disk from which machines are created: it must not contain the identity of a machine.
    Image,
    /// A running machine.
    Node,
}

/// Checks a root folder.
pub fn check(tree: &dyn Tree, purpose: Purpose) -> Report {
    let mut findings = Vec::new();
    let image = programs::image(tree, &mut findings);
    units::check(tree, &mut findings);
    programs::check(tree, &image, &mut findings);
    network::check(tree, purpose, &image, &mut findings);
    agents::check(tree, &mut findings);
    system::check(tree, purpose, &mut findings);
    Report::new(purpose, findings)
}
