//! Services, by PID 1. A folder that nobody booted has none, and nothing is asked there.

use std::time::Duration;

use crate::os::systemd::{Outcome, Systemd, SystemdError};
use kiln_node_plan::Step;
use kiln_node_plan::layout::{BOOT_LOADER_UNIT, KUBELET_UNIT, RUNTIME_UNIT};

use crate::apply::transition::Pace;
use crate::node::Node;

/// How long a service may take to start. containerd with many pods reads for half a minute; the default limit of systemd itself is 90 s,
/// and it is the one to say that a service does not come up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// Loads modules of the kernel, and has ended when it has.
const MODULES_UNIT: &str = "systemd-modules-load.service";

/// For units of the image that need a configured node.
const CONFIGURED_UNIT: &str = "kiln-configured.target";

/// sshd, as Debian and as others name it.
const SSHD_UNITS: [&str; 2] = ["ssh.service", "sshd.service"];

/// A service that is not as the document asks.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// PID 1 cannot be asked, or says no.
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    /// It does not run.
    #[error("`{unit}` does not run ({result}); `journalctl -u {unit}` says why")]
    Failed {
        unit: String,
        /// Why, in a word.
        result: String,
    },
}

/// Does what a step says to a service.
pub fn act(node: &Node, step: &Step, pace: Pace) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    match step {
        Step::DaemonReload => systemd.daemon_reload()?,
        Step::Stop { unit } => drop(systemd.stop(unit)?),
        Step::Start { unit } => {
            let outcome = systemd.start(unit)?;
            if unit == BOOT_LOADER_UNIT && matches!(outcome, Outcome::Skipped) {
                node.journal.warn(
                    "there is no `update-grub`: tell the boot loader of the kernel's arguments yourself".to_owned(),
                );
            }
            check(unit, outcome)?;
        }
        // Whoever is ordered after us cannot be waited for; what does not run yet reads its files when it starts.
        Step::Reload { unit } | Step::Restart { unit } if pace != Pace::Live && unit != MODULES_UNIT => {
            let runs = systemd.unit(unit)?.is_active();
            runs.then(|| systemd.restart_no_wait(unit)).transpose()?;
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

/// Starts the kubelet where its turn has passed, without waiting for it: one whose gate was shut when its turn came is not tried again.
/// One that is due, or runs, is left alone: asked to start it, PID 1 plans half of the boot a second time and runs again what had ended.
pub fn open_gate(node: &Node) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    if systemd.is_due(KUBELET_UNIT)? || systemd.is_up(KUBELET_UNIT)? {
        return Ok(());
    }
    // kubelet wants it; where there is no kubelet, or one that cannot be started, others wait for it still.
    let configured = start_configured(&mut systemd);
    systemd.start_no_wait(KUBELET_UNIT)?;
    Ok(configured?)
}

/// Starts the target where the image has it and its turn has passed.
fn start_configured(systemd: &mut Systemd) -> Result<(), SystemdError> {
    let state = systemd.unit(CONFIGURED_UNIT)?;
    if state.load != "loaded" || state.is_active() || systemd.is_due(CONFIGURED_UNIT)? {
        return Ok(());
    }
    systemd.start_no_wait(CONFIGURED_UNIT)
}

/// Has sshd read its keys again, where it runs: one that the next connection starts reads them anyway.
pub fn tell_sshd(node: &Node) -> Result<(), ServiceError> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    for unit in SSHD_UNITS {
        if systemd.unit(unit)?.is_active() {
            return check(unit, systemd.reload(unit)?);
        }
    }
    Ok(())
}

fn client(node: &Node) -> Option<Systemd> {
    node.systemd.as_ref().map(|socket| Systemd::new(socket, PATIENCE))
}

fn check(unit: &str, outcome: Outcome) -> Result<(), ServiceError> {
    match outcome {
        Outcome::Started => Ok(()),
        // A condition of the unit's own: whoever wrote it wanted that.
        Outcome::Skipped if unit != KUBELET_UNIT => Ok(()),
        Outcome::Skipped => {
            Err(ServiceError::Failed { unit: unit.to_owned(), result: "its condition does not hold".to_owned() })
        }
        Outcome::Failed { result } => Err(ServiceError::Failed { unit: unit.to_owned(), result }),
    }
}
