//! One boot of one machine in QEMU.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_machines::command::{run, tail};
use kiln_machines::qemu::{self, Accelerator, Ended, Network, VirtualMachine};
use kiln_machines::tools;

use crate::expected::Configured;
use crate::tree::create_folder;
use crate::{Error, Identity, Variant};

/// The size of the report disk. A capture of some two hundred units with the journal takes a few MiB.
const REPORT_SIZE: u64 = 64 << 20;

/// A kernel that panics turns the machine off.
const KERNEL: &str = "console=ttyS0 rw mitigations=off quiet panic=-1";

/// The line on the console after the report is complete.
pub(crate) const DONE: &str = "BENCH-DONE";

/// The limit of one boot. The slowest variant takes one or two minutes of the host, and five where two others compile.
const MINUTES: u32 = 30;

/// The clock of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The host's: other work on the host changes the result.
    Wall,
    /// Counts instructions, 2 ns each: other work on the host does not change the result. The seconds rank variants; they are not those of a
    /// real machine.
    Instructions,
}

/// The measurements of one boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Seconds from the kernel's entry to kubelet's first line.
    pub up: f64,
    /// The part of `up` in which the machine was not idle.
    pub busy: f64,
    /// Seconds until networkd had an address by DHCP; none if it had none when the machine reported.
    pub lease: Option<f64>,
    /// Instructions of kilnd's units, with those of the kernel on their behalf; none without kilnd.
    pub instructions: Option<u64>,
    /// The kind of boot that kilnd detected; none without kilnd.
    pub identity: Option<Identity>,
    /// The folder with the capture (`manager.txt`, `units.txt`) and the journal.
    pub capture: PathBuf,
    /// The configured paths of the node after the boot.
    pub configured: Configured,
}

/// The image file of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) file: PathBuf,
    pub(crate) format: &'static str,
}

/// A machine that can be booted several times from the same disk.
pub(crate) struct Machine<'a> {
    /// The root folder that has QEMU.
    pub(crate) tools: &'a Path,
    pub(crate) kernel: &'a Path,
    pub(crate) work: &'a Path,
    pub(crate) variant: Variant,
    pub(crate) disk: &'a Disk,
    pub(crate) media: &'a Path,
    pub(crate) clock: Clock,
}

impl Machine<'_> {
    /// Boots once from a fresh copy of the disk and returns the copy: the disk of a node that has run before.
    pub(crate) fn become_donor(&self) -> Result<Disk, Error> {
        let disk = Disk { file: self.work.join("donor.qcow2"), format: "qcow2" };
        self.run_until_off(&disk.file, " bench.donor")?;
        Ok(disk)
    }

    /// Boots from a fresh copy of the disk, waits until the machine has turned itself off, and reads its report.
    pub(crate) fn boot(&self, number: usize) -> Result<Boot, Error> {
        let name = self.variant.name();
        let report = self.run_until_off(&self.work.join("overlay.qcow2"), "")?;
        let capture = self.work.join("out").join(format!("{name}-{number}"));
        if capture.exists() {
            fs::remove_dir_all(&capture).map_err(Error::file(&capture))?;
        }
        create_folder(&capture)?;
        run(Command::new("tar").arg("-xf").arg(&report).arg("-C").arg(&capture))?;
        let read = |file: &str| {
            let path = capture.join(file);
            fs::read_to_string(&path).map_err(Error::file(&path))
        };
        let unreadable = || Error::Boot {
            variant: name,
            problem: "reported a clock that cannot be read".to_owned(),
            console: String::new(),
        };
        let (up, busy) = times(&read("start")?).ok_or_else(unreadable)?;
        let configured = Configured::read(&capture.join("configured"))?;
        let units = read("units.txt")?;
        let instructions = (self.clock == Clock::Instructions).then(|| instructions(&units)).flatten();
        let journal = read("journal.txt")?;
        let (lease, identity) = (lease(&journal), Identity::from_journal(&journal));
        Ok(Boot { up, busy, lease, instructions, identity, capture, configured })
    }

    /// Boots a fresh copy of the disk at `overlay` and waits until the machine has turned itself off. Returns the report disk.
    fn run_until_off(&self, overlay: &Path, kernel_arguments: &str) -> Result<PathBuf, Error> {
        let mut create = tools::command(Some(self.tools), "qemu-img");
        create.args(["create", "-q", "-f", "qcow2", "-F", self.disk.format, "-b"]).arg(&self.disk.file).arg(overlay);
        // A disk with free space after the root partition.
        let size = (self.variant == Variant::Disks).then_some("4G");
        run(create.args(size))?;
        let report = self.work.join("report.raw");
        File::create(&report).and_then(|file| file.set_len(REPORT_SIZE)).map_err(Error::file(&report))?;

        let root = if self.variant == Variant::Disks { "nvme0n1p1" } else { "nvme0n1" };
        let arguments = format!("root=/dev/{root} {KERNEL}{kernel_arguments}");
        let accelerator = match self.clock {
            Clock::Wall => Accelerator::SingleThread,
            Clock::Instructions => Accelerator::Instructions,
        };
        // Every variant has the same devices: to probe one more takes the kernel longer than the differences that are measured.
        let disks = [("root", overlay, "qcow2"), ("report", &report, "raw"), ("media", self.media, "raw")];
        let machine = VirtualMachine {
            memory_mib: 1024,
            vm_id: Some(self.variant.vm_id()),
            disks: disks.map(|(id, file, format)| qemu::Disk { id, file, format, log: None }).to_vec(),
            network: Network::User,
            // Debian's cloud kernel has NVMe and ext4 built in and needs no initrd.
            kernel: Some((self.kernel, &arguments)),
            ..VirtualMachine::new(Some(self.tools), accelerator)
        };
        require_report(&machine.run(MINUTES * 60)?, self.variant.name())?;
        Ok(report)
    }
}

/// Fails unless a machine turned itself off after its report.
fn require_report(ended: &Ended, variant: &'static str) -> Result<(), Error> {
    let problem = match ended {
        Ended { is_killed: true, .. } => {
            format!("was killed, perhaps because it did not turn itself off within {MINUTES} min")
        }
        Ended { console, .. } if console.contains(DONE) => return Ok(()),
        _ => "did not report".to_owned(),
    };
    Err(Error::Boot { variant, problem, console: tail(&ended.console, 30) })
}

/// Seconds from the kernel's entry until networkd had an address by DHCP.
fn lease(journal: &str) -> Option<f64> {
    let line = journal.lines().find(|line| line.contains(": DHCPv4 address "))?;
    line.trim_start_matches('[').split(']').next()?.trim().parse().ok()
}

/// The processor time of kilnd's units in the output of `systemctl show`, as instructions.
fn instructions(units: &str) -> Option<u64> {
    /// `-icount shift=1`.
    const NANOSECONDS: u64 = 2;
    let count = |unit: &str| {
        let block = units.split("\n\n").find(|block| block.lines().any(|line| line == format!("Id={unit}")))?;
        let time: u64 = block.lines().find_map(|line| line.strip_prefix("CPUUsageNSec=")?.parse().ok())?;
        Some(time / NANOSECONDS)
    };
    Some(count("kiln-identity.service")? + count("kiln-config.service")?)
}

/// `/proc/uptime` as seconds up and busy. With one processor, the machine is busy when it is not idle.
fn times(text: &str) -> Option<(f64, f64)> {
    let (up, idle) = text.trim().split_once(' ')?;
    let (up, idle): (f64, f64) = (up.parse().ok()?, idle.parse().ok()?);
    Some((up, up - idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_two_units_before_kubelet() {
        let unit = |name: &str, time: &str| format!("Id={name}\nCPUUsageNSec={time}\n");
        let all = [unit("kiln-identity.service", "20"), unit("x.service", "9"), unit("kiln-config.service", "40")];
        assert_eq!(instructions(&all.join("\n")), Some(30));
        assert_eq!(instructions(&unit("x.service", "9")), None);
        assert_eq!(instructions(&unit("kiln-config.service", "[not set]")), None);
    }

    #[test]
    fn lease_is_the_time_of_networkds_message() {
        let journal = "[    8.93] n systemd-networkd[9]: e: Link UP\n\
                       [    9.341270] n systemd-networkd[9]: e: DHCPv4 address 10.0.2.15/24, gateway 10.0.2.2 acquired\n";
        assert_eq!(lease(journal), Some(9.34127));
        assert_eq!(lease("[    8.93] n systemd-networkd[9]: e: Link UP\n"), None);
    }

    #[test]
    fn machine_without_a_report_fails_with_its_console() {
        let check = |console: &str, is_killed| {
            let ended = Ended { console: console.to_owned(), is_killed };
            require_report(&ended, "floor").map_err(|error| error.to_string())
        };
        assert_eq!(check("BENCH-DONE\n", false), Ok(()));
        let error = check("early\n", true).unwrap_err();
        assert!(error.contains("`floor` was killed") && error.contains("early"), "{error}");
        let error = check("panic\n", false).unwrap_err();
        assert!(error.contains("did not report") && error.contains("panic"), "{error}");
    }

    #[test]
    fn busy_time_is_the_time_that_is_not_idle() {
        assert_eq!(times("6.5 0.25\n"), Some((6.5, 6.25)));
        assert_eq!(times("6.5"), None);
        assert_eq!(times("a b"), None);
    }
}
