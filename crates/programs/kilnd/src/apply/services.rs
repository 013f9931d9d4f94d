//! Starts, stops and reloads services through systemd. Does nothing for `--root`, where no systemd runs.

use std::time::Duration;

use crate::os;
use crate::os::systemd::{JobOutcome, Systemd};
use kiln_node_plan::Step;
use kiln_node_plan::layout::{BOOT_LOADER_UNIT, KUBELET_UNIT, RUNTIME_UNIT};

use crate::apply::ServiceError;
use crate::apply::transition::Phase;
use crate::node::Node;

/// How long to wait for a service to start. containerd with many pods takes half a minute. Longer than systemd's own default of 90 s, so
/// that systemd decides when a service has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

/// A oneshot unit that loads kernel modules.
const MODULES_UNIT: &str = "systemd-modules-load.service";

/// A target for units of the image that need a configured node.
const CONFIGURED_UNIT: &str = "kiln-configured.target";

/// sshd on Debian, and elsewhere.
const SSHD_UNITS: [&str; 2] = ["ssh.service", "sshd.service"];

/// Executes a step that concerns systemd.
pub fn run(node: &Node, step: &Step, phase: Phase) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    match step {
        Step::DaemonReload => systemd.daemon_reload()?,
        Step::Stop { unit } => drop(systemd.stop(unit)?),
        Step::Start { unit } => {
            let outcome = systemd.start(unit)?;
            if unit == BOOT_LOADER_UNIT && matches!(outcome, JobOutcome::Skipped) {
                node.log.warn(
                    "`update-grub`, `grubby` and `kernel-install` are not installed: update the boot loader configuration yourself to change kernel arguments"
                        .to_owned(),
                );
            }
            check(unit, outcome)?;
        }
        // During a boot kilnd must not wait for units that are ordered after it. A unit that does not run yet reads its files when it
        // starts.
        Step::Reload { unit } | Step::Restart { unit } if phase != Phase::Live && unit != MODULES_UNIT => {
            let is_active = systemd.unit(unit)?.is_active();
            is_active.then(|| systemd.restart_no_wait(unit)).transpose()?;
        }
        Step::Reload { unit } => check(unit, systemd.reload(unit)?)?,
        Step::Restart { unit } if [KUBELET_UNIT, RUNTIME_UNIT, MODULES_UNIT].contains(&unit.as_str()) => {
            check(unit, systemd.restart(unit)?)?;
        }
        Step::Restart { unit } => check(unit, systemd.restart_if_running(unit)?)?,
        _ => {}
    }
    Ok(())
}

/// Starts the kubelet if systemd has already skipped it, without waiting. systemd checks the gate (`ConditionPathExists=`) once: a kubelet
/// whose job ran while the gate was closed is not started again. If the kubelet has a queued job or runs, kilnd leaves it alone: another
/// start request would make systemd queue its dependencies again and rerun oneshot units that have finished.
pub fn start_kubelet(node: &Node) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    if systemd.has_job(KUBELET_UNIT)? || systemd.is_up(KUBELET_UNIT)? {
        return Ok(());
    }
    // The kubelet wants this target, but other units may need it on a machine without a kubelet.
    let configured = start_configured(&mut systemd);
    systemd.start_no_wait(KUBELET_UNIT)?;
    Ok(configured?)
}

/// Starts the kubelet if the gate was closed at its last start. A kubelet that somebody stopped stays stopped.
pub fn start_skipped_kubelet(node: &Node) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    if systemd.unit(KUBELET_UNIT)?.conditions {
        return Ok(());
    }
    start_kubelet(node)
}

/// Starts the target if the image has it and systemd has already skipped it.
fn start_configured(systemd: &mut Systemd) -> Result<(), os::Error> {
    let state = systemd.unit(CONFIGURED_UNIT)?;
    if state.load != "loaded" || state.is_active() || systemd.has_job(CONFIGURED_UNIT)? {
        return Ok(());
    }
    systemd.start_no_wait(CONFIGURED_UNIT)
}

/// Reloads sshd, if it runs, so that it reads its host keys again. A socket-activated sshd reads them at the next connection.
pub fn reload_sshd(node: &Node) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    for unit in SSHD_UNITS {
        if systemd.unit(unit)?.is_active() {
            return check(unit, systemd.reload(unit)?);
        }
    }
    Ok(())
}

/// A client of the node's systemd; none below `--root`.
pub(crate) fn client(node: &Node) -> Option<Systemd> {
    node.systemd.as_ref().map(|socket| Systemd::new(socket, TIMEOUT))
}

fn check(unit: &str, outcome: JobOutcome) -> Result<(), ServiceError> {
    match outcome {
        JobOutcome::Started => Ok(()),
        // A condition of the unit itself was not met, as its author intended.
        JobOutcome::Skipped if unit != KUBELET_UNIT => Ok(()),
        JobOutcome::Skipped => {
            Err(ServiceError::Failed { unit: unit.to_owned(), result: "its condition was not met".to_owned() })
        }
        JobOutcome::Failed { result } => Err(ServiceError::Failed { unit: unit.to_owned(), result }),
    }
}
