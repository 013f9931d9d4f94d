//! While the donor is away.

use std::time::Duration;

use kiln_cloud::{CaptureRequest, ErrorClass, Instance, PowerDown, PowerState, Protection, Provisioning};

use super::Verdict;
use crate::action::Action;
use crate::journal::{Memo, Run};
use crate::names::VERSION_TAG;
use crate::observed::Observed;
use crate::step::Step;

/// A node that is up after four times the published 3 min 44 s, or not at all.
const READY_PATIENCE: Duration = Duration::from_mins(20);

pub(super) fn hold_node(run: &Run, seen: &Observed) -> Option<Verdict> {
    let Some(node) = seen.node.as_ref()? else { return Some(gone(run)) };
    Some(match node.held_by.as_deref() {
        Some(owner) if owner == run.id.as_str() => Verdict::done(),
        Some(other) => Verdict::fail(
            ErrorClass::Busy,
            format!("run {other} holds node {}: resume it, or release the node", run.header.donor.node),
        ),
        None => Verdict::act(Action::HoldNode),
    })
}

pub(super) fn protect(run: &Run, seen: &Observed) -> Option<Verdict> {
    let instance = match donor(run, seen.instance.as_ref()?.as_ref()) {
        Ok(instance) => instance,
        Err(failed) => return Some(failed),
    };
    if instance.protection == Protection::FULL {
        return Some(Verdict::done());
    }
    let memo = Memo::Protection(instance.protection);
    let action = Action::SetProtection { instance: Box::new(instance.clone()), protection: Protection::FULL };
    Some(Verdict::Act(action, Some(memo)))
}

pub(super) fn first_boot(run: &Run) -> Verdict {
    if run.header.donor.has_first_boot { Verdict::done() } else { Verdict::act(Action::InstallFirstBoot) }
}

pub(super) fn power_off(run: &Run, seen: &Observed) -> Option<Verdict> {
    let node = seen.node.as_ref()?;
    let instance = match donor(run, seen.instance.as_ref()?.as_ref()) {
        Ok(instance) => instance,
        Err(failed) => return Some(failed),
    };
    let how = if run.header.policy.deallocate { PowerDown::Deallocate } else { PowerDown::KeepHardware };
    Some(match instance.power {
        PowerState::Deallocated => Verdict::done(),
        PowerState::Stopped if how == PowerDown::KeepHardware => Verdict::done(),
        PowerState::Stopping | PowerState::Deallocating => Verdict::poll("the donor is stopping"),
        PowerState::Unknown => Verdict::poll("Azure does not say whether the donor runs"),
        PowerState::Stopped | PowerState::Starting | PowerState::Running => {
            let memo = Memo::Boot(node.as_ref().and_then(|node| node.boot.clone()));
            Verdict::Act(Action::PowerOff(how), Some(memo))
        }
    })
}

pub(super) fn capture(run: &Run, seen: &Observed) -> Option<Verdict> {
    let (capture, instance) = (seen.capture.as_ref()?, seen.instance.as_ref()?);
    if let Some(capture) = capture {
        let ours = capture.tags.get(VERSION_TAG).map(String::as_str) == Some(run.header.version.as_str());
        return Some(match &capture.provisioning {
            Provisioning::Succeeded if ours => Verdict::done(),
            Provisioning::InProgress(_) => Verdict::poll("the copy of the disk is being made"),
            _ => Verdict::act(Action::DeleteCapture),
        });
    }
    let instance = match donor(run, instance.as_ref()) {
        Ok(instance) => instance,
        Err(failed) => return Some(failed),
    };
    if !matches!(instance.power, PowerState::Stopped | PowerState::Deallocated) {
        let message = format!("somebody started {} before its disk was copied", run.header.donor.node);
        return Some(Verdict::fail(ErrorClass::Refused, message));
    }
    let mut tags = run.header.tags.clone();
    tags.insert(VERSION_TAG.to_owned(), run.header.version.to_string());
    Some(Verdict::act(Action::Capture(CaptureRequest {
        name: run.header.capture.clone(),
        location: run.header.line.location.clone(),
        disk: run.header.donor.os_disk.clone(),
        tags,
    })))
}

pub(super) fn start(run: &Run, seen: &Observed) -> Option<Verdict> {
    let Ok(instance) = donor(run, seen.instance.as_ref()?.as_ref()) else {
        return Some(Verdict::found("the donor is gone; there is nothing to start"));
    };
    Some(match instance.power {
        PowerState::Running => Verdict::done(),
        PowerState::Starting => Verdict::poll("the donor is starting"),
        PowerState::Stopping | PowerState::Deallocating => Verdict::poll("the donor is still stopping"),
        PowerState::Stopped | PowerState::Deallocated | PowerState::Unknown => Verdict::act(Action::Start),
    })
}

pub(super) fn await_ready(run: &Run, seen: &Observed) -> Option<Verdict> {
    let node = seen.node.as_ref()?;
    if donor(run, seen.instance.as_ref()?.as_ref()).is_err() {
        return Some(Verdict::found("the donor is gone; nobody comes back"));
    }
    let wait = |why: String| Some(Verdict::Poll { pause: Duration::from_secs(5), why, patience: READY_PATIENCE });
    let name = &run.header.donor.node;
    let Some(node) = node else { return wait(format!("node {name} has not registered")) };
    if !node.ready {
        return wait(format!("node {name} is not Ready: {}", node.why_not));
    }
    // A node says that it is Ready for a while after its machine stopped. One that we started is in a new boot.
    let before = match run.step(Step::PowerOff).and_then(|progress| progress.memo.as_ref()) {
        Some(Memo::Boot(Some(boot))) if run.is_begun(Step::Start) => Some(boot),
        _ => None,
    };
    if before.is_some() && before == node.boot.as_ref() {
        return wait(format!("node {name} has not been heard of since it was started"));
    }
    Some(Verdict::done())
}

pub(super) fn unprotect(run: &Run, seen: &Observed) -> Option<Verdict> {
    let Ok(instance) = donor(run, seen.instance.as_ref()?.as_ref()) else {
        return Some(Verdict::found("the donor is gone"));
    };
    Some(match run.protection_before() {
        Some(before) if before != instance.protection => {
            Verdict::act(Action::SetProtection { instance: Box::new(instance.clone()), protection: before })
        }
        _ => Verdict::done(),
    })
}

pub(super) fn release_node(run: &Run, seen: &Observed) -> Option<Verdict> {
    Some(match seen.node.as_ref()? {
        Some(node) if node.held_by.as_deref() == Some(run.id.as_str()) => Verdict::act(Action::ReleaseNode),
        _ => Verdict::done(),
    })
}

/// The donor, if it is still the machine that was chosen.
fn donor<'a>(run: &Run, instance: Option<&'a Instance>) -> Result<&'a Instance, Verdict> {
    match instance {
        None => Err(gone(run)),
        Some(instance) if instance.vm_id != run.header.donor.vm_id => Err(Verdict::fail(
            ErrorClass::NotFound,
            format!("instance {} is another machine than the donor by now", run.header.donor.instance),
        )),
        Some(instance) => Ok(instance),
    }
}

fn gone(run: &Run) -> Verdict {
    let donor = &run.header.donor;
    Verdict::fail(ErrorClass::NotFound, format!("donor {} (instance {}) is gone", donor.node, donor.instance))
}
