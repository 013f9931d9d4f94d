//! Long operations and the agenda of what happens when.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::World;
use super::boot::Facts;
use super::profile::seconds;
use super::resource::State;
use super::vm::Power;
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;

/// A long operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) target: ResourceId,
    pub(crate) location: String,
    pub(crate) started: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) fate: Fate,
    /// `None` while it runs.
    pub(crate) outcome: Option<Result<(), ArmError>>,
    /// Keys of the resources that it holds until it ends.
    holds: Vec<String>,
    effects: Vec<Effect>,
    /// Whether the `Location` URL gives the resource when all is done.
    pub(crate) returns_resource: bool,
}

/// What the fault plan makes of an operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) enum Fate {
    #[default]
    Normal,
    /// It works and says that it did not.
    FailsAfterAll(ArmError),
    /// It does not work.
    Fails(ArmError),
}

/// What an operation does when it ends well.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// `provisioningState` becomes `Succeeded`.
    Settle(String),
    /// The resource and all below it are gone.
    Remove(String),
    /// The resource group and all in it are gone.
    RemoveGroup(String),
    PowerOn(String),
    PowerOff(String, Power),
    /// The instance takes its scale set's model.
    Upgrade(String),
    /// The instance gets a new OS disk from the image that it has.
    Reimage(String),
}

/// Something that happens at a time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum What {
    Finish {
        operation: String,
    },
    /// One step of an operation that takes several; it does not happen when the operation is to fail.
    Step {
        operation: String,
        effect: Effect,
    },
    /// A machine's boot has come to its end: nothing to do, but the clock of an instant world goes there.
    Booted,
}

/// How an operation is begun.
pub(crate) struct Begin<'a> {
    pub(crate) target: &'a ResourceId,
    pub(crate) seconds: f64,
    pub(crate) holds: Vec<String>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) returns_resource: bool,
}

impl<'a> Begin<'a> {
    /// An operation on one resource that ends with it settled.
    pub(crate) fn settling(target: &'a ResourceId, seconds: f64) -> Self {
        let key = target.key();
        Self { target, seconds, holds: vec![key.clone()], effects: vec![Effect::Settle(key)], returns_resource: true }
    }

    /// An operation that ends with the resource gone.
    pub(crate) fn removing(target: &'a ResourceId, seconds: f64) -> Self {
        let key = target.key();
        Self { target, seconds, holds: vec![key.clone()], effects: vec![Effect::Remove(key)], returns_resource: false }
    }
}

impl World {
    /// Refuses when another operation holds the resource.
    pub(crate) fn must_be_free(&self, key: &str) -> Result<(), ArmError> {
        let Some(resource) = self.resources.get(key) else { return Ok(()) };
        let Some(operation) = resource.operation.as_ref().and_then(|id| self.operations.get(id)) else { return Ok(()) };
        let name = resource.id.name();
        let what = match resource.state {
            State::Deleting => {
                format!("Operation is not allowed on resource '{name}' since it is marked for deletion.")
            }
            _ => format!(
                "Another operation is in progress on resource '{name}'; it started at {}. Retry when it has ended.",
                operation.started
            ),
        };
        Err(ArmError::conflict("OperationNotAllowed", what))
    }

    /// Begins an operation: it holds its resources, and its effects come when its time is over.
    pub(crate) fn begin(&mut self, begin: Begin<'_>) -> String {
        let id = self.meta.ids.uuid();
        let ends = self.now + seconds(begin.seconds);
        for key in &begin.holds {
            if let Some(resource) = self.resources.get_mut(key) {
                resource.operation = Some(id.clone());
            }
        }
        let location = self.resources.get(&begin.target.key()).map(|resource| resource.location().to_owned());
        let operation = Operation {
            id: id.clone(),
            target: begin.target.clone(),
            location: location.filter(|name| !name.is_empty()).unwrap_or_else(|| self.spec.location.clone()),
            started: self.now,
            ends,
            fate: std::mem::take(&mut self.fate),
            outcome: None,
            holds: begin.holds,
            effects: begin.effects,
            returns_resource: begin.returns_resource,
        };
        self.operations.insert(id.clone(), operation);
        self.at(ends, What::Finish { operation: id.clone() });
        id
    }

    /// Lets one effect of an operation come before its end.
    pub(crate) fn step(&mut self, operation: &str, after: SignedDuration, effect: Effect) {
        self.at(self.now + after, What::Step { operation: operation.to_owned(), effect });
    }

    /// Replaces what happened in `self` by what stood before, but for the operation: it says that all went well and changed nothing.
    pub(crate) fn pretend(&mut self, before: Self, operation: Option<&str>) {
        let operation = operation.and_then(|id| self.operations.get(id)).cloned();
        let meta = self.meta.clone();
        *self = before;
        self.meta = meta;
        if let Some(operation) = operation {
            self.at(operation.ends, What::Finish { operation: operation.id.clone() });
            self.operations
                .insert(operation.id.clone(), Operation { holds: Vec::new(), effects: Vec::new(), ..operation });
        }
    }

    fn at(&mut self, at: Timestamp, what: What) {
        // Keys sort by time, and by age among equals.
        let key = format!("{:020}-{:010}", at.as_microsecond().max(0), self.sequence());
        self.agenda.insert(key, Event { at, what });
    }

    pub(super) fn run(&mut self, what: What) {
        match what {
            What::Booted => {}
            What::Step { operation, effect } => {
                let works =
                    self.operations.get(&operation).is_some_and(|operation| !matches!(operation.fate, Fate::Fails(_)));
                if works {
                    self.apply(effect);
                }
            }
            What::Finish { operation } => self.finish(&operation),
        }
    }

    fn finish(&mut self, id: &str) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        operation.outcome = Some(match &operation.fate {
            Fate::Normal => Ok(()),
            Fate::FailsAfterAll(error) | Fate::Fails(error) => Err(error.clone()),
        });
        let (fails, holds, effects) = (
            matches!(operation.fate, Fate::Fails(_)),
            std::mem::take(&mut operation.holds),
            std::mem::take(&mut operation.effects),
        );
        for key in &holds {
            if let Some(resource) = self.resources.get_mut(key)
                && resource.operation.as_deref() == Some(id)
            {
                resource.operation = None;
            }
        }
        if fails {
            for key in &holds {
                self.fail(key);
            }
        } else {
            for effect in effects {
                self.apply(effect);
            }
        }
    }

    /// What a failed operation leaves of a resource.
    fn fail(&mut self, key: &str) {
        let Some(resource) = self.resources.get_mut(key) else { return };
        resource.state = State::Failed;
        resource.revision += 1;
        if let Some(vm) = &mut resource.vm {
            vm.power = match vm.power {
                Power::Starting => Power::Stopped,
                Power::Stopping | Power::Deallocating => Power::Running,
                power => power,
            };
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Settle(key) => {
                if let Some(resource) = self.resources.get_mut(&key) {
                    resource.state = State::Succeeded;
                }
            }
            Effect::Remove(key) => self.remove(&key),
            Effect::RemoveGroup(key) => {
                self.groups.remove(&key);
                let inside: Vec<String> =
                    self.resources.below(&format!("{key}/")).map(|(key, _)| key.to_owned()).collect();
                for key in &inside {
                    self.remove(key);
                }
            }
            Effect::PowerOn(key) => self.power_on(&key),
            Effect::PowerOff(key, to) => {
                if let Some(resource) = self.resources.get_mut(&key)
                    && let Some(vm) = &mut resource.vm
                {
                    vm.power_off(to);
                }
            }
            Effect::Upgrade(key) => crate::compute::instance::upgrade(self, &key),
            Effect::Reimage(key) => crate::compute::instance::reimage(self, &key),
        }
    }

    /// Starts a machine's boot now.
    pub(crate) fn power_on(&mut self, key: &str) {
        let (now, spec) = (self.now, self.spec.clone());
        let (disk, facts) = match self.boot(key) {
            Some((key, disk, facts)) => (Some((key, disk)), facts),
            None => (None, Facts::default()),
        };
        if let Some((key, disk)) = disk
            && let Some(resource) = self.resources.get_mut(&key)
        {
            resource.disk = Some(disk);
        }
        let Some(vm) = self.resources.get_mut(key).and_then(|resource| resource.vm.as_mut()) else { return };
        vm.power_on(&spec.profile, now, &facts);
        let ends = vm.boot.as_ref().map_or(now, super::vm::Boot::ends);
        self.at(ends, What::Booted);
    }
}
