//! While the donor is away.

use std::time::Duration;

use kiln_types::{ErrorClass, Instance, PowerDown, PowerState, Protection, Provisioning, SnapshotRequest};

use super::{Judged, Verdict, in_stride};
use crate::action::Action;
use crate::journal::{Memo, Run, StepFailure};
use crate::names::VERSION_TAG;
use crate::observed::Observed;
use crate::step::Step;

/// A node that is up after four times the published 3 min 44 s, or not at all.
const READY_PATIENCE: Duration = Duration::from_mins(20);

pub(super) fn hold_node(run: &Run, seen: &Observed) -> Judged {
    let Some(node) = seen.node()? else { return Ok(Verdict::Fail(gone(run))) };
    Ok(match node.held_by.as_deref() {
        Some(owner) if owner == run.id.as_str() => Verdict::done(),
        Some(other) => Verdict::fail(
            ErrorClass::Busy,
            format!("run {other} holds node {}: resume it, or release the node", run.header.donor.node),
        ),
        None => Verdict::act(Action::HoldNode),
    })
}

pub(super) fn protect(run: &Run, seen: &Observed) -> Judged {
    let instance = match donor(run, seen.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Verdict::Fail(failure)),
    };
    if instance.protection == Protection::FULL {
        return Ok(Verdict::done());
    }
    let memo = Memo::Protection(instance.protection);
    let action = Action::SetProtection { instance: Box::new(instance.clone()), protection: Protection::FULL };
    Ok(Verdict::Act(action, Some(memo)))
}

pub(super) fn first_boot(run: &Run) -> Verdict {
    if run.header.donor.has_first_boot { Verdict::done() } else { Verdict::act(Action::InstallFirstBoot) }
}

pub(super) fn power_off(run: &Run, seen: &Observed) -> Judged {
    let how = if run.header.policy.deallocate { PowerDown::Deallocate } else { PowerDown::KeepHardware };
    let act = || {
        let memo = Memo::Boot(seen.node()?.and_then(|node| node.boot.clone()));
        Ok(Verdict::Act(Action::PowerOff(how), Some(memo)))
    };
    // That it is off is read before its disk is copied.
    if in_stride(run, Step::PowerOff) {
        return act();
    }
    let instance = match donor(run, seen.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Verdict::Fail(failure)),
    };
    match instance.power {
        PowerState::Stopped | PowerState::Deallocated if !run.is_begun(Step::PowerOff) => {
            let message = format!("somebody else stopped {}: its disk is not copied", run.header.donor.node);
            Ok(Verdict::fail(ErrorClass::Refused, message))
        }
        PowerState::Deallocated => Ok(Verdict::done()),
        PowerState::Stopped if how == PowerDown::KeepHardware => Ok(Verdict::done()),
        PowerState::Stopping | PowerState::Deallocating => Ok(Verdict::poll("the donor is stopping")),
        PowerState::Unknown => Ok(Verdict::poll("Azure does not say whether the donor runs")),
        PowerState::Stopped | PowerState::Starting | PowerState::Running => act(),
    }
}

pub(super) fn snapshot(run: &Run, seen: &Observed) -> Judged {
    let message = |text: String| Ok(Verdict::fail(ErrorClass::Refused, text));
    // There was none when the donor was taken away.
    let found = if in_stride(run, Step::Snapshot) { None } else { seen.snapshot()? };
    if let Some(snapshot) = found {
        let ours = snapshot.tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
        return match &snapshot.provisioning {
            Provisioning::InProgress(_) => Ok(Verdict::poll("the copy of the disk is being made")),
            // A machine that runs by now may have been started while its disk was copied.
            Provisioning::Succeeded if ours && donor(run, seen.instance()?).is_ok_and(|donor| !is_off(donor)) => {
                let name = snapshot.name.to_string();
                Ok(Verdict::Act(Action::DeleteSnapshot, Some(Memo::Target(name))))
            }
            Provisioning::Succeeded if ours => Ok(Verdict::done()),
            Provisioning::Succeeded => message(format!("somebody else made {} meanwhile", snapshot.name)),
            Provisioning::Failed | Provisioning::Canceled => Ok(Verdict::act(Action::DeleteSnapshot)),
        };
    }
    let instance = match donor(run, seen.instance()?) {
        Ok(instance) => instance,
        Err(failure) => return Ok(Verdict::Fail(failure)),
    };
    if !is_off(instance) {
        return message(format!("somebody started {} before its disk was copied", run.header.donor.node));
    }
    let mut tags = run.header.tags.clone();
    tags.insert(VERSION_TAG.to_owned(), run.header.version.to_string());
    Ok(Verdict::act(Action::Snapshot(SnapshotRequest {
        name: run.header.snapshot.clone(),
        location: run.header.line.location.clone(),
        disk: run.header.donor.os_disk.clone(),
        tags,
    })))
}

pub(super) fn start(run: &Run, seen: &Observed) -> Judged {
    // To start what runs does no harm.
    if in_stride(run, Step::Start) && run.is_done(Step::Snapshot) {
        return Ok(Verdict::act(Action::Start));
    }
    let Ok(instance) = donor(run, seen.instance()?) else {
        return Ok(Verdict::found("the donor is gone; there is nothing to start"));
    };
    Ok(match instance.power {
        PowerState::Running => Verdict::done(),
        PowerState::Starting => Verdict::poll("the donor is starting"),
        PowerState::Stopping | PowerState::Deallocating => Verdict::poll("the donor is still stopping"),
        PowerState::Stopped | PowerState::Deallocated | PowerState::Unknown => Verdict::act(Action::Start),
    })
}

pub(super) fn await_ready(run: &Run, seen: &Observed) -> Judged {
    let name = &run.header.donor.node;
    // A node says that it is Ready for a while after its machine stopped. One whose machine was off is in a new boot.
    let before = match run.step(Step::PowerOff).and_then(|progress| progress.memo.as_ref()) {
        Some(Memo::Boot(Some(boot))) if run.is_done(Step::PowerOff) || run.is_begun(Step::Start) => Some(boot),
        _ => None,
    };
    let why = match seen.node()? {
        None => format!("node {name} has not registered"),
        Some(node) if !node.ready => format!("node {name} is not Ready: {}", node.why_not),
        Some(node) if before.is_some() && before == node.boot.as_ref() => {
            format!("node {name} has not been heard of since it was started")
        }
        Some(_) => return Ok(Verdict::done()),
    };
    if donor(run, seen.instance()?).is_err() {
        return Ok(Verdict::found("the donor is gone; nobody comes back"));
    }
    Ok(Verdict::Poll { pause: Duration::from_secs(5), why, patience: READY_PATIENCE })
}

pub(super) fn unprotect(run: &Run, seen: &Observed) -> Judged {
    let Ok(instance) = donor(run, seen.instance()?) else { return Ok(Verdict::found("the donor is gone")) };
    Ok(match run.protection_before() {
        Some(before) if before != instance.protection => {
            Verdict::act(Action::SetProtection { instance: Box::new(instance.clone()), protection: before })
        }
        _ => Verdict::done(),
    })
}

pub(super) fn release_node(run: &Run, seen: &Observed) -> Judged {
    Ok(match seen.node()? {
        Some(node) if node.held_by.as_deref() == Some(run.id.as_str()) => Verdict::act(Action::ReleaseNode),
        _ => Verdict::done(),
    })
}

/// The donor, if it is still the machine that was chosen.
fn donor<'a>(run: &Run, instance: Option<&'a Instance>) -> Result<&'a Instance, StepFailure> {
    match instance {
        None => Err(gone(run)),
        Some(instance) if instance.vm_id != run.header.donor.vm_id => Err(StepFailure::new(
            ErrorClass::NotFound,
            format!("instance {} is another machine than the donor by now", run.header.donor.instance),
        )),
        Some(instance) => Ok(instance),
    }
}

fn is_off(instance: &Instance) -> bool {
    matches!(instance.power, PowerState::Stopped | PowerState::Deallocated)
}

fn gone(run: &Run) -> StepFailure {
    let donor = &run.header.donor;
    StepFailure::new(ErrorClass::NotFound, format!("donor {} (instance {}) is gone", donor.node, donor.instance))
}
