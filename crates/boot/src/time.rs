//! How long the phases of a boot took.

use std::fmt::Write as _;

use crate::model::{Boot, Manager};
use crate::span::Usec;

/// The boot is still going on, or its end was not recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFinished {
    /// It goes on.
    #[error(
        "the boot is not finished (FinishTimestampMonotonic=0): jobs are still queued; `systemctl list-jobs` shows them"
    )]
    Running,
    /// The capture does not say.
    #[error("the capture does not say when the boot finished: it needs the manager's FinishTimestampMonotonic")]
    Unknown,
}

/// When the boot finished.
pub(crate) fn finished(boot: &Boot) -> Result<Usec, NotFinished> {
    match boot.manager.finish {
        None => Err(NotFinished::Unknown),
        Some(Usec::ZERO) => Err(NotFinished::Running),
        Some(finish) => Ok(finish),
    }
}

/// Names that systemd gives to containers; all other kinds of virtualization boot a kernel.
const CONTAINERS: [&str; 12] = [
    "systemd-nspawn",
    "lxc",
    "lxc-libvirt",
    "docker",
    "podman",
    "rkt",
    "openvz",
    "wsl",
    "proot",
    "pouch",
    "k8s",
    "container-other",
];

fn is_container(manager: &Manager) -> bool {
    manager.virtualization.as_deref().is_some_and(|kind| CONTAINERS.contains(&kind))
}

/// What `systemd-analyze time` prints, trailing blank included.
pub fn time(boot: &Boot) -> Result<String, NotFinished> {
    let finish = finished(boot)?;
    let manager = &boot.manager;
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > Usec::ZERO);
    let mut text = "Startup finished in ".to_owned();
    let (firmware, loader, initrd) = (known(manager.firmware), known(manager.loader), known(manager.initrd));
    if let Some(firmware) = firmware {
        let _ = write!(text, "{} (firmware) + ", firmware - loader.unwrap_or_default());
    }
    if let Some(loader) = loader {
        let _ = write!(text, "{loader} (loader) + ");
    }
    let kernel_done = initrd.unwrap_or(userspace);
    // In a container there is no kernel of one's own.
    let has_kernel = userspace > Usec::ZERO && !is_container(manager);
    if has_kernel {
        let _ = write!(text, "{kernel_done} (kernel) + ");
    }
    if let Some(initrd) = initrd {
        let _ = write!(text, "{} (initrd) + ", userspace - initrd);
    }
    let _ = write!(text, "{} (userspace) ", finish - userspace);
    if has_kernel {
        let _ = write!(text, "= {} ", firmware.unwrap_or_default() + finish);
    }
    text.push('\n');
    let target = boot.id("default.target");
    if let Some(unit) = boot.unit(target) {
        let activated = unit.activated.unwrap_or_default();
        let _ = if activated >= userspace && activated > Usec::ZERO {
            writeln!(text, "{target} reached after {} in userspace.", activated - userspace)
        } else {
            writeln!(text, "{target} was never reached.")
        };
    }
    Ok(text)
}
