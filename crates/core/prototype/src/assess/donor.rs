//! The steps that take the donor away, copy its disk and bring it back.

use std::time::Duration;

use kiln_types::tags::{LIVE_TAG, VERSION_TAG};
use kiln_types::{ErrorClass, Instance, PowerDown, PowerState, Protection, Provisioning, SnapshotRequest};

use super::{Assessed, Assessment, is_uninterrupted};
use crate::action::Action;
use crate::journal::{Memo, Run, StepFailure};
use crate::observed::Observed;
use crate::step::Step;

/// More than five times the 3 min 44 s that kamino's donor was away.
const READY_TIMEOUT: Duration = Duration::from_mins(20);

pub(super) fn hold_node(run: &Run, observed: &Observed) -> Assessed {
    let Some(node) = observed.node()? else { return Ok(Assessment::Fail(gone(run))) };
    Ok(match node.held_by.as_deref() {
        Some(owner) if owner == run.id.as_str() => Assessment::done(),
        Some(other) => Assessment::fail(
            ErrorClass::Busy,
            format!("node `{}` is held by run {other}: resume that run, or release the node", run.header.donor.node),
        ),
        None => Assessment::act(Action::HoldNode),
    })
}

pub(super) fn protect(run: &Run, observed: &Observed) -> Assessed {
    let instance = match donor(run, observed.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Assessment::Fail(failure)),
    };
    if instance.protection == Protection::FULL {
        return Ok(Assessment::done());
    }
    let memo = Memo::Protection(instance.protection);
    let action = Action::SetProtection { instance: Box::new(instance.clone()), protection: Protection::FULL };
    Ok(Assessment::Act(action, Some(memo)))
}

pub(super) fn first_boot(run: &Run) -> Assessment {
    if run.header.donor.has_first_boot { Assessment::done() } else { Assessment::act(Action::InstallFirstBoot) }
}

pub(super) fn power_off(run: &Run, observed: &Observed) -> Assessed {
    let how = if run.header.options.deallocate { PowerDown::Deallocate } else { PowerDown::KeepHardware };
    let act = || {
        let memo = Memo::Boot(observed.node()?.and_then(|node| node.boot_id.clone()));
        Ok(Assessment::Act(Action::PowerOff(how), Some(memo)))
    };
    // The snapshot step checks that the machine is off.
    if is_uninterrupted(run, Step::PowerOff) {
        return act();
    }
    let instance = match donor(run, observed.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Assessment::Fail(failure)),
    };
    match instance.power {
        PowerState::Stopped | PowerState::Deallocated if !run.is_begun(Step::PowerOff) => {
            let message = format!("`{}` was stopped by someone else: its disk is not copied", run.header.donor.node);
            Ok(Assessment::fail(ErrorClass::Refused, message))
        }
        PowerState::Deallocated => Ok(Assessment::done()),
        PowerState::Stopped if how == PowerDown::KeepHardware => Ok(Assessment::done()),
        PowerState::Stopping | PowerState::Deallocating => Ok(Assessment::poll("the donor is stopping")),
        PowerState::Unknown => Ok(Assessment::poll("Azure does not report whether the donor is running")),
        PowerState::Stopped | PowerState::Starting | PowerState::Running => act(),
    }
}

pub(super) fn snapshot(run: &Run, observed: &Observed) -> Assessed {
    let refuse = |message: String| Ok(Assessment::fail(ErrorClass::Refused, message));
    // The survey step found no snapshot.
    let existing = if is_uninterrupted(run, Step::Snapshot) { None } else { observed.snapshot()? };
    if let Some(snapshot) = existing {
        let own = snapshot.tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
        return match &snapshot.provisioning {
            Provisioning::InProgress(_) => Ok(Assessment::poll("the snapshot is being created")),
            // A machine that is running now may have been started while its disk was copied.
            Provisioning::Succeeded if own && donor(run, observed.instance()?).is_ok_and(|donor| !is_off(donor)) => {
                let name = snapshot.name.to_string();
                Ok(Assessment::Act(Action::DeleteSnapshot, Some(Memo::Target(name))))
            }
            Provisioning::Succeeded if own => Ok(Assessment::done()),
            Provisioning::Succeeded => {
                refuse(format!("snapshot `{}` was created by someone else meanwhile", snapshot.name))
            }
            Provisioning::Failed | Provisioning::Canceled => Ok(Assessment::act(Action::DeleteSnapshot)),
        };
    }
    let instance = match donor(run, observed.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Assessment::Fail(failure)),
    };
    if !is_off(instance) {
        return refuse(format!("`{}` was started by someone else before its disk was copied", run.header.donor.node));
    }
    Ok(Assessment::act(Action::Snapshot(request(run))))
}

/// The snapshot of a running donor. One that exists before the step is done is deleted: whether the file systems were frozen while it was
/// created is known only to the process that created it.
pub(super) fn live_snapshot(run: &Run, observed: &Observed) -> Assessed {
    let refuse = |message: String| Ok(Assessment::fail(ErrorClass::Refused, message));
    // The survey step found no snapshot.
    let existing = if is_uninterrupted(run, Step::LiveSnapshot) { None } else { observed.snapshot()? };
    if let Some(snapshot) = existing {
        let own = snapshot.tags.get(LIVE_TAG).map(String::as_str) == Some(run.id.as_str());
        return match &snapshot.provisioning {
            Provisioning::InProgress(_) => Ok(Assessment::poll("the snapshot is being created")),
            Provisioning::Succeeded if !own => {
                refuse(format!("snapshot `{}` was created by someone else meanwhile", snapshot.name))
            }
            Provisioning::Succeeded | Provisioning::Failed | Provisioning::Canceled => {
                Ok(Assessment::Act(Action::DeleteSnapshot, Some(Memo::Target(snapshot.name.to_string()))))
            }
        };
    }
    let instance = match donor(run, observed.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Assessment::Fail(failure)),
    };
    if instance.power != PowerState::Running {
        return refuse(format!("`{}` is not running, so its file systems cannot be frozen", run.header.donor.node));
    }
    let mut request = request(run);
    request.tags.insert(LIVE_TAG.to_owned(), run.id.to_string());
    Ok(Assessment::act(Action::LiveSnapshot(request)))
}

fn request(run: &Run) -> SnapshotRequest {
    let mut tags = run.header.tags.clone();
    tags.insert(VERSION_TAG.to_owned(), run.header.version.to_string());
    SnapshotRequest {
        name: run.header.snapshot.clone(),
        location: run.header.definition.location.clone(),
        disk: run.header.donor.os_disk.clone(),
        encryption_set: run.header.donor.encryption_set.clone(),
        tags,
    }
}

pub(super) fn thaw(run: &Run, observed: &Observed) -> Assessed {
    // A live snapshot is only done once kilnd has reported the thaw.
    if is_uninterrupted(run, Step::Thaw) && run.is_done(Step::LiveSnapshot) {
        return Ok(Assessment::done());
    }
    Ok(match donor(run, observed.instance()?) {
        Ok(_) => Assessment::act(Action::Thaw),
        Err(_) => Assessment::done_because("the donor no longer exists, so there is nothing to thaw"),
    })
}

pub(super) fn start(run: &Run, observed: &Observed) -> Assessed {
    // Starting a running machine does no harm.
    if is_uninterrupted(run, Step::Start) && run.is_done(Step::Snapshot) {
        return Ok(Assessment::act(Action::Start));
    }
    let Ok(instance) = donor(run, observed.instance()?) else {
        return Ok(Assessment::done_because("the donor no longer exists, so there is nothing to start"));
    };
    Ok(match instance.power {
        PowerState::Running => Assessment::done(),
        PowerState::Starting => Assessment::poll("the donor is starting"),
        PowerState::Stopping | PowerState::Deallocating => Assessment::poll("the donor is still stopping"),
        PowerState::Stopped | PowerState::Deallocated | PowerState::Unknown => Assessment::act(Action::Start),
    })
}

pub(super) fn await_ready(run: &Run, observed: &Observed) -> Assessed {
    let name = &run.header.donor.node;
    let before = boot_before(run);
    let reason = match observed.node()? {
        None => format!("node `{name}` has not registered"),
        Some(node) if !node.is_ready() => format!("node `{name}` is not Ready: {}", node.readiness),
        Some(node) if before.is_some() && before == node.boot_id.as_deref() => {
            format!("node `{name}` has not reported since it was started")
        }
        Some(_) => return Ok(Assessment::done()),
    };
    let poll = Assessment::Poll { pause: Duration::from_secs(5), reason, timeout: READY_TIMEOUT };
    // This process has just started the donor. The node is watched before the cloud is asked.
    if is_uninterrupted(run, Step::AwaitReady) && run.is_done(Step::Start) && observed.waited != Some(Step::AwaitReady)
    {
        return Ok(poll);
    }
    Ok(match donor(run, observed.instance()?) {
        Ok(instance) if is_off(instance) => Assessment::act(Action::Start),
        Ok(_) => poll,
        Err(_) => Assessment::done_because("the donor no longer exists, so no node becomes Ready"),
    })
}

/// The boot id that the donor's node had before its machine was stopped. A node stays Ready for a while after that, so a Ready node counts
/// only if it has another boot id.
pub fn boot_before(run: &Run) -> Option<&str> {
    match run.step(Step::PowerOff)?.memo.as_ref()? {
        Memo::Boot(boot) if run.is_done(Step::PowerOff) || run.is_begun(Step::Start) => boot.as_deref(),
        _ => None,
    }
}

pub(super) fn unprotect(run: &Run, observed: &Observed) -> Assessed {
    if let Some(before) = run.protection_before()
        && is_uninterrupted(run, Step::Unprotect)
        && run.is_done(Step::Protect)
    {
        return Ok(Assessment::act(Action::RestoreProtection(before)));
    }
    let Ok(instance) = donor(run, observed.instance()?) else {
        return Ok(Assessment::done_because("the donor no longer exists"));
    };
    Ok(match run.protection_before() {
        Some(before) if before != instance.protection => {
            Assessment::act(Action::SetProtection { instance: Box::new(instance.clone()), protection: before })
        }
        _ => Assessment::done(),
    })
}

pub(super) fn release_node(run: &Run, observed: &Observed) -> Assessed {
    Ok(match observed.node()? {
        Some(node) if node.held_by.as_deref() == Some(run.id.as_str()) => Assessment::act(Action::ReleaseNode),
        _ => Assessment::done(),
    })
}

/// The donor, if the instance is still the machine that was chosen.
fn donor<'a>(run: &Run, instance: Option<&'a Instance>) -> Result<&'a Instance, StepFailure> {
    match instance {
        None => Err(gone(run)),
        Some(instance) if instance.vm_id != run.header.donor.vm_id => Err(StepFailure::new(
            ErrorClass::NotFound,
            format!("instance {} is no longer the donor but a different machine", run.header.donor.instance),
        )),
        Some(instance) => Ok(instance),
    }
}

fn is_off(instance: &Instance) -> bool {
    matches!(instance.power, PowerState::Stopped | PowerState::Deallocated)
}

fn gone(run: &Run) -> StepFailure {
    let donor = &run.header.donor;
    let message = format!("donor `{}` (instance {}) no longer exists", donor.node, donor.instance);
    StepFailure::new(ErrorClass::NotFound, message)
}
