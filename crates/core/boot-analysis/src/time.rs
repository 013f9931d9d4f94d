//! Durations of the phases of a boot.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

use crate::model::{Boot, Manager};
use crate::span::Usec;

/// The end of the boot is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFinished {
    #[error("the boot has not finished: `FinishTimestampMonotonic` is 0, so jobs are still queued")]
    Running,
    #[error("the end of the boot is unknown: the capture has no `FinishTimestampMonotonic`")]
    Unknown,
}

/// End of the boot.
pub(crate) fn finished(boot: &Boot) -> Result<Usec, NotFinished> {
    match boot.manager.finish {
        None => Err(NotFinished::Unknown),
        Some(Usec::ZERO) => Err(NotFinished::Running),
        Some(finish) => Ok(finish),
    }
}

/// Containers, as `systemd-detect-virt` names them. All other kinds of virtualization boot a kernel.
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

/// The boot with times as `systemd-analyze critical-chain` and `blame` use them.
///
/// In a container, systemd-analyze subtracts the start of PID 1 from every time. The time of a unit that started in the same microsecond as
/// PID 1 becomes zero, which means "never started", so the unit disappears from both outputs. `systemd-analyze time` does not do this.
pub(crate) fn as_analyzed(boot: &Boot) -> Cow<'_, Boot> {
    if !is_container(&boot.manager) {
        return Cow::Borrowed(boot);
    }
    let start = boot.userspace();
    let mut boot = boot.clone();
    let times = boot
        .units
        .values_mut()
        .flat_map(|unit| [&mut unit.activating, &mut unit.activated, &mut unit.deactivating, &mut unit.deactivated]);
    for time in times.chain([&mut boot.manager.finish, &mut boot.manager.userspace]).flatten() {
        *time = *time - start;
    }
    Cow::Owned(boot)
}

/// Duration of each phase of a boot; `None` if the machine has no such phase or did not record it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phases {
    pub firmware: Option<Usec>,
    pub loader: Option<Usec>,
    /// `None` in a container.
    pub kernel: Option<Usec>,
    pub initrd: Option<Usec>,
    /// From the start of PID 1 until the job queue was empty.
    pub userspace: Usec,
    /// The sum of all phases; `None` in a container.
    pub total: Option<Usec>,
    /// The default target.
    pub goal: String,
    /// When the default target was reached, counted from PID 1.
    pub goal_reached: Option<Usec>,
}

/// Computes the duration of each phase.
pub fn phases(boot: &Boot) -> Result<Phases, NotFinished> {
    let finish = finished(boot)?;
    let manager = &boot.manager;
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > Usec::ZERO);
    let (firmware, loader, initrd) = (known(manager.firmware), known(manager.loader), known(manager.initrd));
    let has_kernel = userspace > Usec::ZERO && !is_container(manager);
    let reached = boot.unit(boot.goal()).and_then(|unit| unit.activated);
    Ok(Phases {
        firmware: firmware.map(|firmware| firmware - loader.unwrap_or_default()),
        loader,
        kernel: has_kernel.then(|| initrd.unwrap_or(userspace)),
        initrd: initrd.map(|initrd| userspace - initrd),
        userspace: finish - userspace,
        total: has_kernel.then(|| firmware.unwrap_or_default() + finish),
        goal: boot.goal().to_owned(),
        goal_reached: reached.filter(|at| *at >= userspace && *at > Usec::ZERO).map(|at| at - userspace),
    })
}

/// The output of `systemd-analyze time`, including its trailing blank.
pub fn time(boot: &Boot) -> Result<String, NotFinished> {
    let phases = phases(boot)?;
    let mut text = "Startup finished in ".to_owned();
    let named = [
        (phases.firmware, "firmware"),
        (phases.loader, "loader"),
        (phases.kernel, "kernel"),
        (phases.initrd, "initrd"),
    ];
    for (span, phase) in named {
        if let Some(span) = span {
            let _ = write!(text, "{span} ({phase}) + ");
        }
    }
    let _ = write!(text, "{} (userspace) ", phases.userspace);
    if let Some(total) = phases.total {
        let _ = write!(text, "= {total} ");
    }
    text.push('\n');
    let goal = &phases.goal;
    let _ = match (boot.unit(goal).map(|unit| unit.activated), phases.goal_reached) {
        (None, _) => writeln!(text, "could not find default.target."),
        (Some(None), _) => writeln!(text, "Could not get time to reach {goal}."),
        (_, Some(reached)) => writeln!(text, "{goal} reached after {reached} in userspace."),
        (_, None) => writeln!(text, "{goal} was never reached."),
    };
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output for a boot with firmware, loader, kernel and initial RAM disk, and the given default target.
    fn printed(goal: &str) -> String {
        let manager = "FirmwareTimestampMonotonic=5250000\nLoaderTimestampMonotonic=2000000\n\
                       InitRDTimestampMonotonic=1125000\nUserspaceTimestampMonotonic=3000000\n\
                       FinishTimestampMonotonic=10500000\n";
        time(&crate::capture::parse(&format!("{manager}\n{goal}")).unwrap()).unwrap()
    }

    #[test]
    fn every_phase_is_printed() {
        let text = printed(
            "Id=multi-user.target\nNames=multi-user.target default.target\nActiveEnterTimestampMonotonic=9000000\n",
        );
        assert_eq!(
            text,
            "Startup finished in 3.250s (firmware) + 2s (loader) + 1.125s (kernel) + 1.875s (initrd) + 7.500s (userspace) = 15.750s \n\
             multi-user.target reached after 6s in userspace.\n"
        );
    }

    #[test]
    fn a_target_that_was_never_reached_differs_from_one_that_is_not_recorded() {
        let second = |goal| printed(goal).lines().nth(1).unwrap().to_owned();
        let goal = "Id=graphical.target\n";
        assert_eq!(second(goal), "Could not get time to reach graphical.target.");
        let never = format!("{goal}ActiveEnterTimestampMonotonic=0\n");
        assert_eq!(second(&never), "graphical.target was never reached.");
        assert_eq!(second("Id=kubelet.service\n"), "could not find default.target.");
    }
}
