//! Long-running operations and the queue of future events.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::World;
use super::boot::BootResult;
use super::profile::seconds;
use super::resource::ProvisioningState;
use super::vm::Power;
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;

/// A long-running operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) target: ResourceId,
    pub(crate) location: String,
    pub(crate) started: Timestamp,
    pub(crate) ends: Timestamp,
    pub(crate) planned_outcome: PlannedOutcome,
    /// `None` while it runs.
    pub(crate) outcome: Option<Result<(), ArmError>>,
    /// Keys of the resources that it locks until it ends.
    holds: Vec<String>,
    effects: Vec<Effect>,
    /// Whether the `Location` URL returns the resource in the end.
    pub(crate) returns_resource: bool,
    /// What the operation returns instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
}

/// The outcome that the fault plan sets for an operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) enum PlannedOutcome {
    #[default]
    Normal,
    /// The effects are applied, but the operation reports this error.
    FailsAfterApplying(ArmError),
    /// The operation fails without effects.
    Fails(ArmError),
}

/// The effect of a successful operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Effect {
    /// `provisioningState` becomes `Succeeded`.
    Settle(String),
    /// Deletes the resource and its children.
    Remove(String),
    /// Detaches the data disk from its VM.
    Detach(String),
    /// Deletes the resource group with all resources.
    RemoveGroup(String),
    PowerOn(String),
    PowerOff(String, Power),
    /// Applies the model of the scale set to the instance.
    Upgrade(String),
    /// Gives the instance a new OS disk from its image.
    Reimage(String),
}

/// A future event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) what: EventAction,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum EventAction {
    Finish {
        operation: String,
    },
    /// One step of a longer operation. It is skipped if the operation is planned to fail.
    Step {
        operation: String,
        effect: Effect,
    },
    /// The end of a boot. It has no effect, but the clock of an `instant` simulation advances to it.
    Booted,
}

/// The parameters of a new operation.
pub(crate) struct NewOperation<'a> {
    pub(crate) target: &'a ResourceId,
    pub(crate) seconds: f64,
    pub(crate) holds: Vec<String>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) returns_resource: bool,
}

impl<'a> NewOperation<'a> {
    /// An operation on one resource that ends in `Succeeded`.
    pub(crate) fn settling(target: &'a ResourceId, seconds: f64) -> Self {
        let key = target.key();
        Self { target, seconds, holds: vec![key.clone()], effects: vec![Effect::Settle(key)], returns_resource: true }
    }

    /// An operation that deletes the resource.
    pub(crate) fn removing(target: &'a ResourceId, seconds: f64) -> Self {
        let key = target.key();
        Self { target, seconds, holds: vec![key.clone()], effects: vec![Effect::Remove(key)], returns_resource: false }
    }
}

impl World {
    /// Rejects a request while another operation locks the resource.
    pub(crate) fn check_not_locked(&self, key: &str) -> Result<(), ArmError> {
        let Some(resource) = self.resources.get(key) else { return Ok(()) };
        let Some(operation) = resource.operation.as_ref().and_then(|id| self.operations.get(id)) else { return Ok(()) };
        let name = resource.id.name();
        let what = match resource.state {
            ProvisioningState::Deleting => {
                format!("Operation is not allowed on resource '{name}' since it is marked for deletion.")
            }
            _ => format!(
                "Another operation is in progress on resource '{name}'; it started at {}. Retry after it has ended.",
                operation.started
            ),
        };
        Err(ArmError::conflict("OperationNotAllowed", what))
    }

    /// Starts an operation. It locks its resources, and its effects are applied when it ends.
    pub(crate) fn begin(&mut self, begin: NewOperation<'_>) -> String {
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
            planned_outcome: std::mem::take(&mut self.planned_outcome),
            outcome: None,
            holds: begin.holds,
            effects: begin.effects,
            returns_resource: begin.returns_resource,
            output: None,
        };
        self.operations.insert(id.clone(), operation);
        self.at(ends, EventAction::Finish { operation: id.clone() });
        id
    }

    /// Sets what an operation returns when it has succeeded.
    pub(crate) fn set_output(&mut self, operation: &str, output: Value) {
        if let Some(operation) = self.operations.get_mut(operation) {
            operation.output = Some(output);
        }
    }

    /// Schedules one effect of an operation before its end.
    pub(crate) fn step(&mut self, operation: &str, after: SignedDuration, effect: Effect) {
        self.at(self.now + after, EventAction::Step { operation: operation.to_owned(), effect });
    }

    /// Restores the state before the request, except for the operation, which reports success. Implements the fault `SuccessButNotApplied`.
    pub(crate) fn discard_changes(&mut self, before: Self, operation: Option<&str>) {
        let operation = operation.and_then(|id| self.operations.get(id)).cloned();
        let meta = self.meta.clone();
        *self = before;
        self.meta = meta;
        if let Some(operation) = operation {
            self.at(operation.ends, EventAction::Finish { operation: operation.id.clone() });
            self.operations
                .insert(operation.id.clone(), Operation { holds: Vec::new(), effects: Vec::new(), ..operation });
        }
    }

    fn at(&mut self, at: Timestamp, what: EventAction) {
        // Keys sort by time, then by age.
        let key = format!("{:020}-{:010}", at.as_microsecond().max(0), self.sequence());
        self.agenda.insert(key, Event { at, what });
    }

    pub(super) fn run(&mut self, what: EventAction) {
        match what {
            EventAction::Booted => {}
            EventAction::Step { operation, effect } => {
                let works = self
                    .operations
                    .get(&operation)
                    .is_some_and(|operation| !matches!(operation.planned_outcome, PlannedOutcome::Fails(_)));
                if works {
                    self.apply(effect);
                }
            }
            EventAction::Finish { operation } => self.finish(&operation),
        }
    }

    fn finish(&mut self, id: &str) {
        let Some(operation) = self.operations.get_mut(id) else { return };
        operation.outcome = Some(match &operation.planned_outcome {
            PlannedOutcome::Normal => Ok(()),
            PlannedOutcome::FailsAfterApplying(error) | PlannedOutcome::Fails(error) => Err(error.clone()),
        });
        self.finished.insert((operation.ends, id.to_owned()));
        let (fails, holds, effects) = (
            matches!(operation.planned_outcome, PlannedOutcome::Fails(_)),
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

    /// The state of a resource after a failed operation.
    fn fail(&mut self, key: &str) {
        let Some(resource) = self.resources.get_mut(key) else { return };
        resource.state = ProvisioningState::Failed;
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
                    resource.state = ProvisioningState::Succeeded;
                    crate::compute::instance::forget_detached_disks(resource);
                }
            }
            Effect::Remove(key) => self.remove(&key),
            Effect::Detach(disk) => crate::compute::disk::set_owner(self, &disk, None),
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

    /// Starts the boot of a VM.
    pub(crate) fn power_on(&mut self, key: &str) {
        let (now, spec) = (self.now, self.spec.clone());
        let (disk, facts) = match self.boot(key) {
            Some((key, disk, facts)) => (Some((key, disk)), facts),
            None => (None, BootResult::default()),
        };
        if let Some((key, disk)) = disk
            && let Some(resource) = self.resources.get_mut(&key)
        {
            resource.disk = Some(disk);
        }
        let Some(vm) = self.resources.get_mut(key).and_then(|resource| resource.vm.as_mut()) else { return };
        vm.power_on(&spec.profile, now, &facts);
        let ends = vm.boot.as_ref().map_or(now, super::vm::Boot::ends);
        self.at(ends, EventAction::Booted);
    }
}
