//! Which steps a plan has, and in which order.
//!
//! The order follows from what an interruption may leave behind. Backups and the new generation's folder come first: they change nothing
//! that is in use. Then come files, kernel settings and accounts, the units, and the switch of the link, which commits the generation.
//! Services restart last, when everything that they read is in place. At a first boot nothing runs yet, so everything that involves
//! systemd is deferred until the kubelet runs.

use std::collections::{BTreeMap, BTreeSet};

use kiln_node_config::{Effect, NodeConfig};

use super::Step;
use super::services::{services, unit_at, unit_for_path};
use crate::block::compose;
use crate::cloud_service::CloudService;
use crate::desired::{Deferred, Desired, Setting, cni_template, rendered_cni};
use crate::file::{AffectedUnit, Comparison, FileContent, FileState};
use crate::layout::{BOOTSTRAP_KUBECONFIG, CREDENTIAL, KUBELET_UNIT, MODULES_UNIT, RUNTIME_UNIT, current};
use crate::observed::Observed;

/// The link target of a masked unit.
const MASK: &str = "/dev/null";

/// The steps, and the deferred steps.
pub(super) fn steps(
    in_force: Option<&NodeConfig>,
    wanted: &NodeConfig,
    desired: &Desired,
    observed: &Observed,
    effect: Effect,
) -> (Vec<Step>, Vec<Step>) {
    let first = in_force.is_none();
    // At a first boot the current folder may be the donor's, and its credential looks like ours.
    let mut work = Work { generation: first, ..Work::default() };
    work.generation(desired, observed);
    work.outside(desired, observed);
    work.blocks(desired, observed);
    work.settings(desired, observed);
    work.blocks_of_services(desired, observed);
    work.accounts(desired, observed);
    work.deferred(desired, observed);
    work.unmount(desired, observed);
    let mut deletions = in_force.map_or_else(Vec::new, |from| stale_kubelet_state(from, wanted));
    deletions.extend(in_force.and_then(|from| stale_network(from, wanted)));
    work.into_ordered(first, deletions, effect)
}

#[derive(Default)]
struct Work {
    backups: Vec<Step>,
    generation: bool,
    blocked: Vec<Step>,
    files: Vec<Step>,
    units: Vec<Step>,
    settings: Vec<Step>,
    accounts: Vec<Step>,
    enable: Vec<Step>,
    stop: Vec<Step>,
    deferred: Vec<Step>,
    affected: BTreeMap<String, Effect>,
    affected_deferred: BTreeMap<String, Effect>,
}

fn notify(affected: &mut BTreeMap<String, Effect>, affects: &[AffectedUnit]) {
    for affect in affects {
        let effect = affected.entry(affect.unit.clone()).or_insert(affect.effect);
        *effect = affect.effect.max(*effect);
    }
}

impl Work {
    fn generation(&mut self, desired: &Desired, observed: &Observed) {
        let manifest = observed.manifest.as_ref();
        for file in &desired.files {
            let last = manifest.and_then(|manifest| manifest.files.get(&file.path)?.as_deref());
            let comparison = Comparison { last, joined: desired.joined };
            let state = observed.file(&current(&file.path));
            let same_content = state.has_content(file, comparison);
            self.generation |= !(same_content && state.has_attributes(file));
            // A joined kubelet does not read its join credential again.
            let unread = desired.joined && matches!(file.content, FileContent::Secret(_));
            if !unread && !same_content {
                notify(&mut self.affected, &file.affects);
            }
        }
        // The tokens of a joined node are removed from the disk, which is not a change.
        let is_removed = |path: &str| desired.joined && [CREDENTIAL, BOOTSTRAP_KUBECONFIG].contains(&path);
        let dropped = |path: &String| desired.file(path).is_none() && !is_removed(path);
        self.generation |= manifest.is_some_and(|manifest| manifest.files.keys().any(dropped));
    }

    fn outside(&mut self, desired: &Desired, observed: &Observed) {
        let recorded = |path: &str| observed.manifest.as_ref().and_then(|manifest| manifest.elsewhere.get(path));
        let units: BTreeSet<&str> = desired.units().map(|file| file.path.as_str()).collect();
        for file in desired.outside() {
            let unit = units.contains(file.path.as_str());
            let state = observed.file(&file.path);
            if recorded(&file.path).is_none() {
                // Recorded from now on so that it can be restored, even if it is as desired now: a later document may change it.
                self.generation = true;
                if matches!(state, FileState::File { .. }) {
                    self.backups.push(Step::BackUp { path: file.path.clone() });
                }
            }
            if state.matches(file, Comparison::default()) {
                continue;
            }
            if unit && file.content == FileContent::Link(MASK.to_owned()) {
                self.stop.extend(unit_at(&file.path).map(|unit| Step::Stop { unit: unit.to_owned() }));
            }
            // Changed permissions alone do not restart a unit.
            let affects = if state.has_content(file, Comparison::default()) { &[][..] } else { &file.affects };
            self.put(unit, Step::WriteFile(file.clone()), affects);
        }
        let wanted: BTreeSet<&str> = desired.outside().map(|file| file.path.as_str()).collect();
        for (path, managed) in observed.manifest.iter().flat_map(|manifest| &manifest.elsewhere) {
            if wanted.contains(path.as_str()) {
                continue;
            }
            self.generation = true;
            let state = observed.file(path);
            if managed.before != *state {
                let step = Step::RestoreFile { path: path.clone(), before: managed.before.clone() };
                match unit_at(path).filter(|_| managed.unit && managed.before == FileState::Absent) {
                    // A unit without a file cannot restart. A masked one was not running.
                    Some(unit) => {
                        self.put(true, step, &[]);
                        let ran = *state != FileState::Link { target: MASK.to_owned() };
                        self.stop.extend(ran.then(|| Step::Stop { unit: unit.to_owned() }));
                    }
                    None => self.put(managed.unit, step, &managed.affects),
                }
            }
        }
    }

    fn put(&mut self, unit: bool, step: Step, affects: &[AffectedUnit]) {
        if unit {
            self.units.push(step);
            notify(&mut self.affected_deferred, affects);
        } else {
            self.files.push(step);
            notify(&mut self.affected, affects);
        }
    }

    fn blocks(&mut self, desired: &Desired, observed: &Observed) {
        for block in &desired.blocks {
            let now = observed.texts.get(&block.path).map_or("", String::as_str);
            let text = compose(now, &block.text);
            if text != now {
                self.files.push(Step::EditFile { path: block.path.clone(), text });
                notify(&mut self.affected, &block.affects);
            }
        }
    }

    fn settings(&mut self, desired: &Desired, observed: &Observed) {
        let differs = |path: &str, value: &str| {
            observed.settings.get(path).is_none_or(|now| normalized(now) != normalized(value))
        };
        for setting in &desired.kernel {
            if differs(&setting.path, &setting.value) {
                self.settings.push(Step::SetKernel(setting.clone()));
            }
        }
        let wanted: BTreeSet<&str> = desired.kernel.iter().map(|setting| setting.path.as_str()).collect();
        for (path, value) in observed.manifest.iter().flat_map(|manifest| &manifest.settings) {
            if !wanted.contains(path.as_str()) {
                self.generation = true;
                if observed.settings.contains_key(path) && differs(path, value) {
                    let value = normalized(value);
                    self.settings.push(Step::SetKernel(Setting {
                        path: path.clone(),
                        value,
                        optional: true,
                        module: None,
                    }));
                }
            }
        }
    }

    fn blocks_of_services(&mut self, desired: &Desired, observed: &Observed) {
        for service in CloudService::ALL {
            let block = desired.blocked.contains(&service);
            let recorded = observed.manifest.as_ref().is_some_and(|manifest| manifest.blocks(service));
            self.generation |= block != recorded;
            // Unblocking also cleans up rules that were partly removed by others.
            let due = if block { !observed.blocked.contains(&service) } else { recorded };
            self.blocked.extend(due.then_some(Step::BlockService { service, block }));
        }
    }

    fn accounts(&mut self, desired: &Desired, observed: &Observed) {
        if let Some(name) = &desired.host_name
            && *name != observed.host_name
        {
            self.accounts.push(Step::SetHostName { name: name.clone() });
        }
        for account in &desired.accounts {
            if observed.accounts.get(&account.name) != Some(account) {
                self.accounts.push(Step::SetAccount(account.clone()));
            }
        }
        for name in observed.manifest.iter().flat_map(|manifest| &manifest.accounts) {
            if !desired.accounts.iter().any(|account| account.name == *name) {
                self.generation = true;
                self.accounts.push(Step::RetireAccount { name: name.clone() });
            }
        }
    }

    fn deferred(&mut self, desired: &Desired, observed: &Observed) {
        for deferred in &desired.deferred {
            match deferred {
                Deferred::Unit(_) => {}
                Deferred::Enabled { unit, enabled } => {
                    if observed.enabled.get(unit) != Some(enabled) {
                        self.enable.push(Step::Enable { unit: unit.clone(), enabled: *enabled });
                    }
                }
                Deferred::GrowRoot if observed.root_grown => {}
                Deferred::GrowRoot => self.deferred.push(Step::GrowRoot),
                Deferred::Swap { path, mib } => {
                    if observed.swap.get(path).copied().unwrap_or_default() != *mib {
                        self.deferred.push(Step::Swap { path: path.clone(), mib: *mib });
                    }
                }
                Deferred::Mount(mount) => {
                    if !observed.mounts.contains(&mount.path) {
                        let phase = if mount.early { &mut self.accounts } else { &mut self.deferred };
                        phase.push(Step::Mount(mount.clone()));
                    }
                }
            }
        }
        let is_wanted = |unit: &str| {
            desired
                .deferred
                .iter()
                .any(|deferred| matches!(deferred, Deferred::Enabled { unit: wanted, .. } if wanted == unit))
        };
        for (unit, before) in observed.manifest.iter().flat_map(|manifest| &manifest.enabled) {
            if !is_wanted(unit) {
                self.generation = true;
                if observed.enabled.get(unit) != Some(before) {
                    self.enable.push(Step::Enable { unit: unit.clone(), enabled: *before });
                }
            }
        }
    }

    /// systemd has a unit for every mount, so stopping it unmounts.
    fn unmount(&mut self, desired: &Desired, observed: &Observed) {
        let wanted = |path: &str| {
            desired.deferred.iter().any(|deferred| matches!(deferred, Deferred::Mount(mount) if mount.path == path))
        };
        for path in observed.manifest.iter().flat_map(|manifest| &manifest.mounts) {
            if !wanted(path) {
                self.generation = true;
                if observed.mounts.contains(path) {
                    self.stop.push(Step::Stop { unit: unit_for_path(path, "mount") });
                }
            }
        }
    }

    fn into_ordered(mut self, first: bool, deletions: Vec<Step>, effect: Effect) -> (Vec<Step>, Vec<Step>) {
        let modules = self.affected.remove(MODULES_UNIT).map(|_| Step::Restart { unit: MODULES_UNIT.to_owned() });
        let mut steps = self.backups;
        if self.generation {
            steps.push(Step::WriteGeneration);
        }
        // Before any file: at a reboot pods start even if a file cannot be written.
        steps.extend(self.blocked);
        steps.extend(self.files);
        steps.extend(modules);
        steps.extend(self.settings);
        steps.extend(self.accounts);
        let mut manager = Vec::new();
        let reload = !self.units.is_empty();
        manager.extend(self.units);
        manager.extend(reload.then_some(Step::DaemonReload));
        manager.extend(self.stop);
        let starts = |step: &Step| match step {
            Step::Enable { unit, enabled: true } => Some(Step::Start { unit: unit.clone() }),
            _ => None,
        };
        let starts: Vec<Step> = self.enable.iter().filter_map(starts).collect();
        manager.extend(self.enable);
        if first {
            // Neither has started yet; they start when the gate opens.
            self.affected.remove(KUBELET_UNIT);
            self.affected.remove(RUNTIME_UNIT);
            steps.extend(self.generation.then_some(Step::SwitchGeneration));
            let mut deferred = manager;
            for (unit, effect) in self.affected {
                notify(&mut self.affected_deferred, &[AffectedUnit { unit, effect }]);
            }
            deferred.extend(services(self.affected_deferred, Vec::new()));
            deferred.extend(starts);
            deferred.extend(self.deferred);
            return (steps, deferred);
        }
        for (unit, effect) in self.affected_deferred {
            notify(&mut self.affected, &[AffectedUnit { unit, effect }]);
        }
        steps.extend(manager);
        steps.extend(self.generation.then_some(Step::SwitchGeneration));
        steps.extend(services(self.affected, deletions));
        // Starting a unit that runs already does nothing.
        steps.extend(starts);
        let mut deferred = self.deferred;
        if effect == Effect::Reboot {
            deferred.push(Step::Reboot);
        }
        (steps, deferred)
    }
}

/// State files in which the kubelet records what its old policies assigned. It refuses to start with them under new policies.
fn stale_kubelet_state(from: &NodeConfig, to: &NodeConfig) -> Vec<Step> {
    let differs = |names: &[&str]| {
        names.iter().any(|name| from.spec.kubelet.configuration.get(*name) != to.spec.kubelet.configuration.get(*name))
    };
    let root = crate::desired::kubelet_root(&to.spec);
    let mut steps = Vec::new();
    if differs(&["cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs", "topologyManagerPolicy"]) {
        steps.push(Step::DeleteFile { path: format!("{root}/cpu_manager_state") });
    }
    if differs(&["memoryManagerPolicy", "reservedMemory", "topologyManagerPolicy"]) {
        steps.push(Step::DeleteFile { path: format!("{root}/memory_manager_state") });
    }
    steps
}

/// The CNI configuration that containerd rendered from another template. While it exists, containerd does not render the new one.
fn stale_network(from: &NodeConfig, to: &NodeConfig) -> Option<Step> {
    let before = cni_template(&from.spec)?;
    (cni_template(&to.spec) != Some(before)).then(|| Step::DeleteFile { path: rendered_cni() })
}

/// A value in the form in which settings are compared: the word in brackets if the kernel lists alternatives, else single spaces.
fn normalized(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_values_are_compared_in_normalized_form() {
        assert_eq!(normalized("always [madvise] never\n"), "madvise");
        assert_eq!(normalized("4096\t131072\t6291456\n"), "4096 131072 6291456");
    }
}
