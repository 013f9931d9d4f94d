//! How long the phases of a boot took.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

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

/// The boot with the times that `systemd-analyze` works with.
///
/// In a container it subtracts the start of PID 1 from every time. A unit that started in the same microsecond as PID 1 then has the time
/// zero, which stands for "never", and is left out of every list.
pub(crate) fn as_analyzed(boot: &Boot) -> Cow<'_, Boot> {
    if !is_container(&boot.manager) {
        return Cow::Borrowed(boot);
    }
    let start = boot.userspace();
    let mut boot = boot.clone();
    let times = boot.units.values_mut().flat_map(|unit| {
        [&mut unit.activating, &mut unit.activated, &mut unit.deactivating, &mut unit.deactivated]
    });
    for time in times.chain([&mut boot.manager.finish, &mut boot.manager.userspace]).flatten() {
        *time = *time - start;
    }
    Cow::Owned(boot)
}

/// How long each phase of a boot took; what the machine does not have, or did not record, is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phases {
    pub firmware: Option<Usec>,
    /// The boot loader.
    pub loader: Option<Usec>,
    /// The kernel; a container has none of its own.
    pub kernel: Option<Usec>,
    /// The initial RAM disk.
    pub initrd: Option<Usec>,
    /// From PID 1 to the end of the boot.
    pub userspace: Usec,
    /// All of these, where there is a kernel.
    pub total: Option<Usec>,
    /// What the boot was to reach.
    pub goal: String,
    /// When it was reached, from PID 1.
    pub goal_reached: Option<Usec>,
}

/// How long each phase took.
pub fn phases(boot: &Boot) -> Result<Phases, NotFinished> {
    let finish = finished(boot)?;
    let manager = &boot.manager;
    let userspace = boot.userspace();
    let known = |mark: Option<Usec>| mark.filter(|mark| *mark > Usec::ZERO);
    let (firmware, loader, initrd) = (known(manager.firmware), known(manager.loader), known(manager.initrd));
    // In a container there is no kernel of one's own.
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

/// What `systemd-analyze time` prints, trailing blank included.
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

    /// Firmware and loader before the kernel, then its initial RAM disk; the goal as given.
    fn printed(goal: &str) -> String {
        let manager = "FirmwareTimestampMonotonic=5250000\nLoaderTimestampMonotonic=2000000\n\
                       InitRDTimestampMonotonic=1125000\nUserspaceTimestampMonotonic=3000000\n\
                       FinishTimestampMonotonic=10500000\n";
        time(&crate::capture::parse(&format!("{manager}\n{goal}")).unwrap()).unwrap()
    }

    #[test]
    fn every_phase_that_a_machine_has_is_printed() {
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
    fn a_goal_that_was_not_reached_is_told_from_one_of_which_nothing_is_recorded() {
        let second = |goal| printed(goal).lines().nth(1).unwrap().to_owned();
        let goal = "Id=graphical.target\n";
        assert_eq!(second(goal), "Could not get time to reach graphical.target.");
        let never = format!("{goal}ActiveEnterTimestampMonotonic=0\n");
        assert_eq!(second(&never), "graphical.target was never reached.");
        assert_eq!(second("Id=kubelet.service\n"), "could not find default.target.");
    }
}
