//! The builder of a desired state.

use std::collections::BTreeMap;

use kiln_node_config::spec::Spec;
use kiln_node_config::{NodeConfig, Violation};

use super::{Desired, IncompatibleConfig};
use crate::facts::Facts;
use crate::file::DesiredFile;

pub(super) struct Draft<'a> {
    pub(super) spec: &'a Spec,
    pub(super) facts: &'a Facts,
    pub(super) desired: Desired,
    problems: Vec<Violation>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(config: &'a NodeConfig, facts: &'a Facts) -> Self {
        let desired = Desired { unknown: config.unknown_fields(), joined: facts.joined, ..Desired::default() };
        Self { spec: &config.spec, facts, desired, problems: Vec::new() }
    }

    /// Adds a file to the generation's folder.
    pub(super) fn file(&mut self, file: DesiredFile) {
        self.desired.files.push(file);
    }

    /// Adds a file outside it.
    pub(super) fn elsewhere(&mut self, file: DesiredFile) {
        self.desired.elsewhere.push(file);
    }

    /// Records a field that this machine cannot apply.
    pub(super) fn reject(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.problems.push(Violation { path: path.into(), reason: reason.into() });
    }

    pub(super) fn reject_if(&mut self, wrong: bool, path: impl Into<String>, reason: impl Into<String>) {
        if wrong {
            self.reject(path, reason);
        }
    }

    pub(super) fn done(mut self) -> Result<Desired, IncompatibleConfig> {
        self.desired.files.sort_by(|a, b| a.path.cmp(&b.path));
        self.desired.elsewhere.sort_by(|a, b| a.path.cmp(&b.path));
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for file in self.desired.outside() {
            *times.entry(file.path.clone()).or_default() += 1;
        }
        for (path, _) in times.into_iter().filter(|(_, times)| *times > 1) {
            self.reject(format!("spec.files[{path}]"), "another field already creates this file");
        }
        if self.problems.is_empty() { Ok(self.desired) } else { Err(IncompatibleConfig(self.problems)) }
    }
}
