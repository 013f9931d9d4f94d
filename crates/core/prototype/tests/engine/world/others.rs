//! Concurrent changes by the autoscaler, users and other programs.

use kiln_types::{Extension, ImageSource, PowerState, Protection, VersionNumber};

use super::{DONOR, Machine, Node, World};

/// An instance that was created during a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CreatedInstance {
    /// The last action of the run before its creation.
    pub(crate) after: Option<String>,
    /// Absent for the original image.
    pub(crate) version: Option<VersionNumber>,
    pub(crate) tested: bool,
    pub(crate) joined: bool,
}

impl World {
    /// Creates instances from the current recipe.
    pub(crate) fn scale_out(&mut self, more: u32) {
        for _ in 0..more {
            let after = self.acts.last().cloned();
            let version = match &self.pool.recipe.image {
                ImageSource::Definition(_) => self.latest().map(|version| version.read.number.clone()),
                ImageSource::ExactVersion(_, number) => Some(number.clone()),
                _ => None,
            };
            let old = matches!(self.pool.recipe.image, ImageSource::Marketplace(_));
            let known = version.as_ref().and_then(|number| self.versions.get(number));
            let bootstraps = self.bootstraps && self.pool.recipe.extensions.iter().any(Extension::is_custom_script);
            let (tested, joined) = match known {
                // A run without a canary includes untested versions.
                Some(version) => {
                    let joins = version.joins && (bootstraps || !self.needs_recipe);
                    (version.tested || !self.needs_canary, joins || !self.needs_canary)
                }
                None => (old, old && bootstraps),
            };
            let runs = match version.clone() {
                Some(number) => ImageSource::ExactVersion(self.definition_name.clone(), number),
                None => self.pool.recipe.image.clone(),
            };
            self.created.push(CreatedInstance { after, version, tested, joined });
            // Ids are never reused.
            let id = 100 + u32::try_from(self.created.len()).unwrap();
            self.machines.insert(id, machine(id, runs, self.now));
            self.pool.capacity += 1;
        }
        self.touch();
    }

    /// The autoscaler removes an instance.
    pub(crate) fn scale_in(&mut self) {
        let free = |(id, machine): (&u32, &Machine)| {
            let kept = self.nodes.get(&machine.node).is_some_and(|node| node.autoscaler.is_some());
            (*id != DONOR && !kept && machine.protection == Protection::NONE).then_some(*id)
        };
        if let Some(id) = self.machines.iter().filter_map(free).next_back() {
            self.machines.remove(&id);
            self.pool.capacity = self.pool.capacity.saturating_sub(1);
            self.touch();
        }
    }

    /// Another program writes a tag.
    pub(crate) fn write_foreign_tag(&mut self) {
        self.pool.tags.insert("cost-centre".to_owned(), format!("{}", self.etag));
        self.touch();
    }

    /// Another program deletes the donor with its node.
    pub(crate) fn delete_donor(&mut self) {
        if let Some(donor) = self.machines.remove(&DONOR) {
            self.nodes.remove(&donor.node);
            self.pool.capacity -= 1;
            self.touch();
        }
    }

    /// Another program starts the donor while it is off.
    pub(crate) fn start_donor(&mut self) {
        let now = self.now;
        if let Some(donor) = self.machines.get_mut(&DONOR)
            && matches!(donor.power, PowerState::Stopped | PowerState::Deallocated)
        {
            (donor.power, donor.up_since) = (PowerState::Running, Some(now));
            donor.boot += 1;
        }
    }

    /// Checks the invariants.
    pub(crate) fn check_invariants(&mut self) {
        let Some(donor) = self.donor().cloned() else { return };
        let node = self.nodes[&donor.node].clone();
        if donor.power != PowerState::Running {
            let kept = node.cordoned && node.autoscaler.is_some() && donor.protection == Protection::FULL;
            self.require(kept, "the donor is away and not protected against the autoscaler, the scale set or new pods");
        }
        if let Some(instance) = self.created.iter().find(|instance| !instance.tested || !instance.joined) {
            let text = format!("a new node got an untested version or did not join: {instance:?}");
            self.require(self.violations.contains(&text), text.clone());
        }
    }
}

pub(crate) fn machine(id: u32, runs: ImageSource, now: jiff::Timestamp) -> Machine {
    Machine {
        vm_id: format!("vm-{id}"),
        node: node_name(id),
        power: PowerState::Running,
        protection: Protection::NONE,
        runs,
        etag: 1,
        boot: 1,
        up_since: Some(now - jiff::SignedDuration::from_hours(24)),
        down_since: None,
        broken: false,
    }
}

pub(crate) fn node() -> Node {
    Node { cordoned: false, autoscaler: None, hold: None, pods: 12, first_boot: false }
}

pub(crate) fn node_name(id: u32) -> String {
    format!("k8s-agentpool1-26100436-vmss{id:06}")
}
