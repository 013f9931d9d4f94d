//! Which steps, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use kiln_node_config::{Effect, NodeConfig};

use super::Step;
use super::services::{mount_unit, services, unit_of};
use crate::artifact::{Affect, Content};
use crate::block::compose;
use crate::desired::{Desired, Late, Setting};
use crate::layout::{KUBELET_UNIT, MODULES_UNIT, RUNTIME_UNIT, current};
use crate::manifest::Before;
use crate::observed::{Against, Observed, Seen};

/// What a unit that cannot be started is a link to.
const NOWHERE: &str = "/dev/null";

/// The steps, and those that wait for the kubelet.
pub(super) fn steps(
    in_force: Option<&NodeConfig>,
    wanted: &NodeConfig,
    desired: &Desired,
    observed: &Observed,
    effect: Effect,
) -> (Vec<Step>, Vec<Step>) {
    let first = in_force.is_none();
    // What is in a folder at a first boot may be the donor's, whose credential would look like ours.
    let mut work = Work { generation: first, ..Work::default() };
    work.generation(desired, observed);
    work.outside(desired, observed);
    work.blocks(desired, observed);
    work.settings(desired, observed);
    work.metadata(desired, observed);
    work.people(desired, observed);
    work.waiting(desired, observed);
    work.unmount(desired, observed);
    let discarded = in_force.map_or_else(Vec::new, |from| discarded(from, wanted));
    work.ordered(first, discarded, effect)
}

#[derive(Default)]
struct Work {
    keep: Vec<Step>,
    generation: bool,
    metadata: Option<Step>,
    files: Vec<Step>,
    units: Vec<Step>,
    settings: Vec<Step>,
    people: Vec<Step>,
    enable: Vec<Step>,
    stop: Vec<Step>,
    late: Vec<Step>,
    affected: BTreeMap<String, Effect>,
    affected_late: BTreeMap<String, Effect>,
}

fn hear(affected: &mut BTreeMap<String, Effect>, affects: &[Affect]) {
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
            let against = Against { last, joined: desired.joined };
            let seen = observed.seen(&current(&file.path));
            let holds = seen.holds(file, against);
            self.generation |= !(holds && seen.is_like(file));
            let unread = desired.joined && matches!(file.content, Content::Secret(_));
            if !unread && !holds {
                hear(&mut self.affected, &file.affects);
            }
        }
        let gone = |path: &String| desired.file(path).is_none();
        self.generation |= manifest.is_some_and(|manifest| manifest.files.keys().any(gone));
    }

    fn outside(&mut self, desired: &Desired, observed: &Observed) {
        let remembered = |path: &str| observed.manifest.as_ref().and_then(|manifest| manifest.elsewhere.get(path));
        let units: BTreeSet<&str> = desired.units().map(|file| file.path.as_str()).collect();
        for file in desired.outside() {
            let unit = units.contains(file.path.as_str());
            let seen = observed.seen(&file.path);
            if remembered(&file.path).is_none() {
                // It is remembered from now on, so that it is put back one day: also what is as it should be, since a later document
                // may want another.
                self.generation = true;
                if matches!(seen, Seen::File { .. }) {
                    self.keep.push(Step::Keep { path: file.path.clone() });
                }
            }
            if seen.is(file, Against::default()) {
                continue;
            }
            if unit && file.content == Content::Link(NOWHERE.to_owned()) {
                self.stop.extend(unit_of(&file.path).map(|unit| Step::Stop { unit: unit.to_owned() }));
            }
            // Nobody reads a file again because another may read it.
            let affects = if seen.holds(file, Against::default()) { &[][..] } else { &file.affects };
            self.put(unit, Step::Put(file.clone()), affects);
        }
        let wanted: BTreeSet<&str> = desired.outside().map(|file| file.path.as_str()).collect();
        for (path, foreign) in observed.manifest.iter().flat_map(|manifest| &manifest.elsewhere) {
            if wanted.contains(path.as_str()) {
                continue;
            }
            self.generation = true;
            let seen = observed.seen(path);
            if !foreign.before.is(seen) {
                let step = Step::PutBack { path: path.clone(), before: foreign.before.clone() };
                match unit_of(path).filter(|_| foreign.unit && foreign.before == Before::Absent) {
                    // A unit that is gone cannot restart. One that is a link to nowhere did not run.
                    Some(unit) => {
                        self.put(true, step, &[]);
                        let ran = *seen != Seen::Link { target: NOWHERE.to_owned() };
                        self.stop.extend(ran.then(|| Step::Stop { unit: unit.to_owned() }));
                    }
                    None => self.put(foreign.unit, step, &foreign.affects),
                }
            }
        }
    }

    fn put(&mut self, unit: bool, step: Step, affects: &[Affect]) {
        if unit {
            self.units.push(step);
            hear(&mut self.affected_late, affects);
        } else {
            self.files.push(step);
            hear(&mut self.affected, affects);
        }
    }

    fn blocks(&mut self, desired: &Desired, observed: &Observed) {
        for block in &desired.blocks {
            let now = observed.texts.get(&block.path).map_or("", String::as_str);
            let text = compose(now, &block.text);
            if text != now {
                self.files.push(Step::Edit { path: block.path.clone(), text });
                hear(&mut self.affected, &block.affects);
            }
        }
    }

    fn settings(&mut self, desired: &Desired, observed: &Observed) {
        let differs =
            |path: &str, value: &str| observed.settings.get(path).is_none_or(|now| reading(now) != reading(value));
        for setting in &desired.kernel {
            if differs(&setting.path, &setting.value) {
                self.settings.push(Step::Set(setting.clone()));
            }
        }
        let wanted: BTreeSet<&str> = desired.kernel.iter().map(|setting| setting.path.as_str()).collect();
        for (path, value) in observed.manifest.iter().flat_map(|manifest| &manifest.settings) {
            if !wanted.contains(path.as_str()) {
                self.generation = true;
                if observed.settings.contains_key(path) && differs(path, value) {
                    let value = reading(value);
                    self.settings.push(Step::Set(Setting { path: path.clone(), value, optional: true }));
                }
            }
        }
    }

    fn metadata(&mut self, desired: &Desired, observed: &Observed) {
        let remembered = observed.manifest.as_ref().is_some_and(|manifest| manifest.blocks_metadata);
        self.generation |= desired.block_metadata != remembered;
        // It is opened also where somebody has taken a part of it away.
        let due = if desired.block_metadata { !observed.blocks_metadata } else { remembered };
        self.metadata = due.then_some(Step::BlockMetadata { block: desired.block_metadata });
    }

    fn people(&mut self, desired: &Desired, observed: &Observed) {
        if let Some(name) = &desired.host_name
            && *name != observed.host_name
        {
            self.people.push(Step::HostName { name: name.clone() });
        }
        for account in &desired.accounts {
            if observed.accounts.get(&account.name) != Some(account) {
                self.people.push(Step::Account(account.clone()));
            }
        }
        for name in observed.manifest.iter().flat_map(|manifest| &manifest.accounts) {
            if !desired.accounts.iter().any(|account| account.name == *name) {
                self.generation = true;
                self.people.push(Step::Retire { name: name.clone() });
            }
        }
    }

    fn waiting(&mut self, desired: &Desired, observed: &Observed) {
        for late in &desired.late {
            match late {
                Late::Unit(_) => {}
                Late::Enabled { unit, enabled } => {
                    if observed.enabled.get(unit) != Some(enabled) {
                        self.enable.push(Step::Enable { unit: unit.clone(), enabled: *enabled });
                    }
                }
                Late::GrowRoot if observed.root_grown => {}
                Late::GrowRoot => self.late.push(Step::GrowRoot),
                Late::Swap { path, mib } => {
                    if observed.swap.get(path).copied().unwrap_or_default() != *mib {
                        self.late.push(Step::Swap { path: path.clone(), mib: *mib });
                    }
                }
                Late::Mount(mount) => {
                    if !observed.mounts.contains(&mount.path) {
                        let when = if mount.early { &mut self.people } else { &mut self.late };
                        when.push(Step::Mount(mount.clone()));
                    }
                }
            }
        }
        let asked = |unit: &str| {
            desired.late.iter().any(|late| matches!(late, Late::Enabled { unit: asked, .. } if asked == unit))
        };
        for (unit, before) in observed.manifest.iter().flat_map(|manifest| &manifest.enabled) {
            if !asked(unit) {
                self.generation = true;
                if observed.enabled.get(unit) != Some(before) {
                    self.enable.push(Step::Enable { unit: unit.clone(), enabled: *before });
                }
            }
        }
    }

    /// The service manager has a unit for everything that is mounted.
    fn unmount(&mut self, desired: &Desired, observed: &Observed) {
        let wanted =
            |path: &str| desired.late.iter().any(|late| matches!(late, Late::Mount(mount) if mount.path == path));
        for path in observed.manifest.iter().flat_map(|manifest| &manifest.mounts) {
            if !wanted(path) {
                self.generation = true;
                if observed.mounts.contains(path) {
                    self.stop.push(Step::Stop { unit: mount_unit(path) });
                }
            }
        }
    }

    fn ordered(mut self, first: bool, discarded: Vec<Step>, effect: Effect) -> (Vec<Step>, Vec<Step>) {
        let modules = self.affected.remove(MODULES_UNIT).map(|_| Step::Restart { unit: MODULES_UNIT.to_owned() });
        let mut steps = self.keep;
        if self.generation {
            steps.push(Step::WriteGeneration);
        }
        // First of all: a machine that starts again lets pods run also when a file cannot be written.
        steps.extend(self.metadata);
        steps.extend(self.files);
        steps.extend(modules);
        steps.extend(self.settings);
        steps.extend(self.people);
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
            // Neither has started yet; the program starts them when the gate is open.
            self.affected.remove(KUBELET_UNIT);
            self.affected.remove(RUNTIME_UNIT);
            steps.extend(self.generation.then_some(Step::Flip));
            let mut late = manager;
            for (unit, effect) in self.affected {
                hear(&mut self.affected_late, &[Affect { unit, effect }]);
            }
            late.extend(services(self.affected_late, Vec::new()));
            late.extend(starts);
            late.extend(self.late);
            return (steps, late);
        }
        for (unit, effect) in self.affected_late {
            hear(&mut self.affected, &[Affect { unit, effect }]);
        }
        steps.extend(manager);
        steps.extend(self.generation.then_some(Step::Flip));
        steps.extend(services(self.affected, discarded));
        // What runs by now stays as it is.
        steps.extend(starts);
        let mut late = self.late;
        if effect == Effect::Reboot {
            late.push(Step::Reboot);
        }
        (steps, late)
    }
}

/// Files of the kubelet that hold what the old policies gave out. It does not start with them under new ones.
fn discarded(from: &NodeConfig, to: &NodeConfig) -> Vec<Step> {
    let differs = |names: &[&str]| {
        names.iter().any(|name| from.spec.kubelet.configuration.get(*name) != to.spec.kubelet.configuration.get(*name))
    };
    let root = crate::desired::kubelet_root(&to.spec);
    let mut steps = Vec::new();
    if differs(&["cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs", "topologyManagerPolicy"]) {
        steps.push(Step::Discard { path: format!("{root}/cpu_manager_state") });
    }
    if differs(&["memoryManagerPolicy", "reservedMemory", "topologyManagerPolicy"]) {
        steps.push(Step::Discard { path: format!("{root}/memory_manager_state") });
    }
    steps
}

/// A value as the kernel means it: of several words the one in brackets, else all of them with single spaces.
fn reading(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen);
    chosen.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_kernel_are_read_as_it_means_them() {
        assert_eq!(reading("always [madvise] never\n"), "madvise");
        assert_eq!(reading("4096\t131072\t6291456\n"), "4096 131072 6291456");
    }
}
