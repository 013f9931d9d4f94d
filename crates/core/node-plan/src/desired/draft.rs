//! A desired state in the making.

use std::collections::BTreeMap;

use kiln_node_config::spec::Spec;
use kiln_node_config::{NodeConfig, Violation};

use super::{Desired, Unfit};
use crate::artifact::Artifact;
use crate::facts::Facts;

pub(super) struct Draft<'a> {
    pub(super) spec: &'a Spec,
    pub(super) facts: &'a Facts,
    pub(super) desired: Desired,
    unfit: Vec<Violation>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(config: &'a NodeConfig, facts: &'a Facts) -> Self {
        let desired = Desired { unknown: config.unknown_fields(), joined: facts.joined, ..Desired::default() };
        Self { spec: &config.spec, facts, desired, unfit: Vec::new() }
    }

    /// A file of the generation's folder.
    pub(super) fn file(&mut self, artifact: Artifact) {
        self.desired.files.push(artifact);
    }

    /// A file elsewhere.
    pub(super) fn elsewhere(&mut self, artifact: Artifact) {
        self.desired.elsewhere.push(artifact);
    }

    /// The machine cannot have this.
    pub(super) fn unfit(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.unfit.push(Violation { path: path.into(), reason: reason.into() });
    }

    pub(super) fn unfit_when(&mut self, wrong: bool, path: impl Into<String>, reason: impl Into<String>) {
        if wrong {
            self.unfit(path, reason);
        }
    }

    pub(super) fn done(mut self) -> Result<Desired, Unfit> {
        self.desired.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.desired.elsewhere.sort_by(|a, b| a.path.cmp(&b.path));
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for artifact in self.desired.outside() {
            *times.entry(artifact.path.clone()).or_default() += 1;
        }
        for (path, _) in times.into_iter().filter(|(_, times)| *times > 1) {
            self.unfit(format!("spec.files[{path}]"), "another field makes this file already");
        }
        if self.unfit.is_empty() { Ok(self.desired) } else { Err(Unfit(self.unfit)) }
    }
}
