//! The processor time of kilnd on an image that has cloud-init and waagent too, as an image of Ubuntu has. Real systemd, and both agents run.
//!
//! kilnd cannot run forty times here, because a first boot needs a new machine. A few boots are enough: a run that the host disturbs takes
//! longer, never shorter.

use std::path::Path;

use test_deps::TestDep;
use testkit::nspawn::{Blueprint, Machine};

use super::{SETTINGS, VM_ID, with_units};
use crate::Error;
use crate::variant::ovf_env;

/// The number of machines, each of which has one first boot.
const MACHINES: usize = 5;
/// The number of further boots of each machine.
const REBOOTS: usize = 3;

/// Starts kilnd and appends its processor time in microseconds to a file, from exec to its end. systemd's own figure also counts what systemd
/// does in the process before exec.
const MEASURE: &str = r#"import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
with open("/var/lib/bench-times", "a") as times:
    print(round((used.ru_utime + used.ru_stime) * 1e6), file=times)
sys.exit(os.waitstatus_to_exitcode(status))
"#;
const TIMES: &str = "/var/lib/bench-times";
const SCRIPT: &str = "/usr/local/sbin/measure";

/// waagent runs on Hyper-V only. Everything else of its unit stays.
const ANY_HYPERVISOR: &str = "[Unit]\nConditionVirtualization=\n";
/// Its services, and the last one of cloud-init.
const AGENTS: [&str; 2] = ["walinuxagent.service", "cloud-final.service"];

/// The lowest processor times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageTimes {
    pub(super) first: u64,
    /// Of a boot at which nothing has changed.
    pub(super) later: u64,
}

/// Whether cloud-init and waagent run on a machine. Both are on the disk either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agents {
    Running,
    Disabled,
}

/// Boots new machines, and each of them again.
pub(super) fn measure(kilnd: &Path, units: &Path, agents: Agents) -> Result<ImageTimes, Error> {
    let runs = (0..MACHINES).map(|_| boots(kilnd, units, agents)).collect::<Result<Vec<_>, _>>()?;
    summary(&runs).ok_or_else(|| Error::Dependency("kilnd was not measured on the image".to_owned()))
}

/// The times of the boots of one machine.
fn boots(kilnd: &Path, units: &Path, agents: Agents) -> Result<Vec<u64>, Error> {
    let mut image = image(kilnd);
    if agents == Agents::Disabled {
        image = image.file("/etc/cloud/cloud-init.disabled", "");
        image = image.link("/etc/systemd/system/walinuxagent.service", "/dev/null");
    }
    let mut machine = with_units(image, units, &format!("/usr/bin/python3 {SCRIPT} "))?.build();
    machine.hardware("dmi/product_uuid", VM_ID);
    machine.hardware("cd/ovf-env.xml", ovf_env());
    for boot in 1..=REBOOTS + 1 {
        if boot == 1 {
            machine.boot();
        } else {
            machine.reboot();
        }
        machine.wait_until(&format!("kilnd has ended in boot {boot}"), |machine| {
            (times(machine).len() == boot).then_some(())
        });
    }
    for unit in AGENTS {
        machine.wait_for(unit, if agents == Agents::Running { "active" } else { "inactive" });
    }
    Ok(times(&machine))
}

fn image(kilnd: &Path) -> Blueprint {
    Blueprint::new("bench-image")
        .root(TestDep::ImageRoot)
        .shared(kilnd, "/usr/bin/kilnd")
        .file(SCRIPT, MEASURE)
        .file("/etc/cloud/cloud.cfg.d/90-bench.cfg", "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n")
        .file("/var/lib/cloud/seed/nocloud/meta-data", "instance-id: bench\nlocal-hostname: bench-node-0\n")
        .file("/var/lib/cloud/seed/nocloud/user-data", "#cloud-config\n")
        .file("/etc/systemd/system/walinuxagent.service.d/bench.conf", ANY_HYPERVISOR)
        // The root also serves as Azure Linux in tests. Ubuntu has no SELinux policy, and reading one adds about 11 ms.
        .file("/etc/selinux/config", "SELINUX=disabled\n")
        .pretend(&SETTINGS)
}

fn times(machine: &Machine) -> Vec<u64> {
    machine.read(TIMES).unwrap_or_default().lines().filter_map(|line| line.parse().ok()).collect()
}

/// The lowest times of all machines; none without boots of both kinds.
fn summary(runs: &[Vec<u64>]) -> Option<ImageTimes> {
    let first = runs.iter().filter_map(|run| run.first()).min()?;
    let later = runs.iter().flat_map(|run| run.iter().skip(1)).min()?;
    Some(ImageTimes { first: *first, later: *later })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_boots_and_later_boots_are_separate() {
        let times = summary(&[vec![4_000, 2_000, 900], vec![3_000, 800, 1_000]]);
        assert_eq!(times, Some(ImageTimes { first: 3_000, later: 800 }));
        assert_eq!(summary(&[vec![4_000]]), None);
        assert_eq!(summary(&[]), None);
    }
}
