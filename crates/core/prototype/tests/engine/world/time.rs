//! The clock, and the operations that end as time passes.

use std::time::Duration;

use kiln_prototype::journal::StepFailure;
use kiln_types::{
    ErrorClass, Failure, OperationHandle, OperationState, PowerState, Progress, Provisioning, VersionState,
};

use super::{DONOR, Effect, Operation, World};

impl World {
    /// Advances the clock.
    pub(crate) fn sleep(&mut self, span: Duration) {
        self.now += jiff::SignedDuration::try_from(span).unwrap();
        self.pass();
    }

    /// Ends the operations that are due.
    pub(crate) fn pass(&mut self) {
        for index in 0..self.operations.len() {
            if self.operations[index].ends > self.now {
                continue;
            }
            if let Some(effect) = self.operations[index].effect.take() {
                let failed = self.operations[index].fails.is_some();
                self.end(effect, failed);
            }
        }
    }

    /// Starts an operation.
    pub(crate) fn begin(&mut self, span: Duration, effect: Effect, fails: Option<Failure>) -> OperationHandle {
        let ends = self.now + jiff::SignedDuration::try_from(span).unwrap();
        let in_response = span.is_zero() && fails.is_none() && is_write(&effect);
        self.operations.push(Operation { ends, effect: Some(effect), fails, forgotten: false });
        self.pass();
        let kind = if in_response { "ended" } else { "op" };
        OperationHandle::new(format!("{kind}-{}", self.operations.len() - 1))
    }

    /// The state of an operation.
    pub(crate) fn observe(&mut self, handle: &OperationHandle) -> Result<OperationState, StepFailure> {
        let (kind, index) = handle.as_str().split_once('-').unwrap();
        if kind == "ended" {
            return Ok(OperationState::Succeeded);
        }
        self.count(1, "observe");
        let operation = &self.operations[index.parse::<usize>().unwrap()];
        if operation.forgotten {
            return Err(StepFailure::new(ErrorClass::NotFound, "no such operation"));
        }
        Ok(if operation.ends > self.now {
            // At most a quarter of an hour, so that the creation of a version is polled a few times.
            let left = Duration::try_from(operation.ends.duration_since(self.now)).unwrap();
            OperationState::Running(Progress { retry_after: Some(left.min(Duration::from_mins(15))), percent: None })
        } else {
            operation.fails.clone().map_or(OperationState::Succeeded, OperationState::Failed)
        })
    }

    fn end(&mut self, effect: Effect, failed: bool) {
        let now = self.now;
        match effect {
            Effect::Stopped(state) => {
                if let Some(donor) = self.machines.get_mut(&DONOR) {
                    if failed {
                        (donor.power, donor.up_since) = (PowerState::Running, Some(now));
                    } else {
                        donor.power = state;
                    }
                }
            }
            Effect::Started(before) => {
                if let Some(donor) = self.machines.get_mut(&DONOR) {
                    if failed {
                        donor.power = before;
                    } else {
                        donor.power = PowerState::Running;
                        donor.boot += 1;
                        donor.up_since = (!donor.broken).then_some(now);
                    }
                }
            }
            Effect::SnapshotMade => {
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.provisioning = if failed { Provisioning::Failed } else { Provisioning::Succeeded };
                }
            }
            Effect::SnapshotGone if !failed => self.snapshot = None,
            Effect::VersionMade(number) => {
                if let Some(version) = self.versions.get_mut(&number) {
                    version.read.state = if failed { VersionState::Failed } else { VersionState::Succeeded };
                    for region in &mut version.read.regions {
                        region.complete = !failed;
                    }
                }
            }
            Effect::VersionGone(number) => {
                if failed {
                    if let Some(version) = self.versions.get_mut(&number) {
                        version.read.state = VersionState::Failed;
                    }
                } else {
                    self.versions.remove(&number);
                }
            }
            Effect::Included(number) => {
                if let Some(version) = self.versions.get_mut(&number) {
                    version.read.state = if failed { VersionState::Failed } else { VersionState::Succeeded };
                    if !failed {
                        version.read.excluded = false;
                    }
                }
            }
            Effect::CanaryMade => {
                if let Some(canary) = &mut self.canary {
                    if failed {
                        canary.failed = Some("AllocationFailed".to_owned());
                    } else {
                        canary.up_since = Some(now);
                    }
                }
            }
            Effect::CanaryGone => match &mut self.canary {
                Some(canary) if failed => canary.deleting = false,
                _ => self.canary = None,
            },
            Effect::ExtensionGone(name) if !failed => {
                self.pool.recipe.extensions.retain(|extension| extension.name != name);
                self.touch();
            }
            Effect::SnapshotGone | Effect::ExtensionGone(_) | Effect::Nothing => {}
        }
    }

    /// Changes the pool's revision.
    pub(crate) fn touch(&mut self) {
        self.etag += 1;
        self.pool.revision = Some(kiln_types::Revision::new(format!("e{}", self.etag)));
    }
}

/// Whether the response of an instant Azure contains the finished resource. Deletions and power actions are only accepted, and polled once.
fn is_write(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::SnapshotMade | Effect::VersionMade(_) | Effect::Included(_) | Effect::CanaryMade | Effect::Nothing
    )
}
