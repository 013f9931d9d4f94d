//! One boot of one machine.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::expected::Configured;
use crate::world::{Tools, finished, folder, tail};
use crate::{Error, Identity, Variant};

/// The room for a report. A capture of some two hundred units with the journal takes a few MiB.
const REPORT_SIZE: u64 = 64 << 20;

/// The disk that a machine writes its report to.
const REPORT: &str = "report.raw";

/// A kernel that gives up turns the machine off.
const KERNEL: &str = "console=ttyS0 rw mitigations=off quiet panic=-1";

/// Minutes after which a machine is taken to hang. The slowest variant takes one or two of the host's, five where two others compile.
const PATIENCE: u32 = 30;

/// How a machine's time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// As that of the host: other work on the host is in it.
    Wall,
    /// By instructions, two nanoseconds each: other work on the host is not in it. Its seconds rank, they are not a machine's.
    Instructions,
}

/// What is known of a boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Seconds from the kernel's entry to kubelet's first line.
    pub up: f64,
    /// Those of them in which the machine was not idle.
    pub busy: f64,
    /// Seconds until the machine had an address for good, by DHCP; none where it had none when it reported.
    pub lease: Option<f64>,
    /// Instructions that kilnd's units took until their boot was over, the kernel's work for them included; where kilnd was there.
    pub instructions: Option<u64>,
    /// What kilnd took it for; where kilnd was there.
    pub identity: Option<Identity>,
    /// The folder with the capture (`manager.txt`, `units.txt`) and the journal.
    pub capture: PathBuf,
    /// What the node had in the end.
    pub configured: Configured,
}

/// A disk's file below the work folder, and how it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) file: String,
    pub(crate) format: &'static str,
}

/// What a machine is made of, below the tools' work folder.
pub(crate) struct Machine<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) work: &'a Path,
    pub(crate) variant: Variant,
    pub(crate) disk: &'a Disk,
    pub(crate) medium: &'a str,
    pub(crate) clock: Clock,
}

impl Machine<'_> {
    /// Boots it once from a fresh copy of its disk, which it then keeps: the disk of a node that ran before.
    pub(crate) fn become_donor(&self) -> Result<Disk, Error> {
        let disk = Disk { file: "donor.qcow2".to_owned(), format: "qcow2" };
        self.turn_on(&disk.file, " bench.donor")?;
        Ok(disk)
    }

    /// Boots it from a fresh copy of its disk, waits until it turned itself off, and reads its report.
    pub(crate) fn boot(&self, number: usize) -> Result<Boot, Error> {
        let name = self.variant.name();
        self.turn_on("overlay.qcow2", "")?;
        let machine = |what: &str| Error::Machine { variant: name, what: what.to_owned(), console: String::new() };
        let capture = self.work.join("out").join(format!("{name}-{number}"));
        if capture.exists() {
            fs::remove_dir_all(&capture).map_err(Error::file(&capture))?;
        }
        folder(&capture)?;
        let inside = format!("out/{name}-{number}");
        finished(self.tools.command("tar").args(["-x", "-f", REPORT, "-C", &inside]))?;
        let start = capture.join("start");
        let text = fs::read_to_string(&start).map_err(Error::file(&start))?;
        let (up, busy) = times(&text).ok_or_else(|| machine("has a clock that cannot be read"))?;
        let configured = Configured::read(&capture.join("configured"))?;
        let units = capture.join("units.txt");
        let units = fs::read_to_string(&units).map_err(Error::file(&units))?;
        let instructions = (self.clock == Clock::Instructions).then(|| instructions(&units)).flatten();
        let journal = capture.join("journal.txt");
        let journal = fs::read_to_string(&journal).map_err(Error::file(&journal))?;
        let (lease, identity) = (lease(&journal), Identity::of(&journal));
        Ok(Boot { up, busy, lease, instructions, identity, capture, configured })
    }

    /// Makes a fresh copy of the disk, boots it and waits until it turned itself off. The report is then on its disk.
    fn turn_on(&self, overlay: &str, more: &str) -> Result<(), Error> {
        let name = self.variant.name();
        let create = ["create", "-q", "-f", "qcow2", "-F", self.disk.format, "-b", &self.disk.file, overlay];
        // A disk that is larger than what is on it, where somebody is to notice.
        let size = (self.variant == Variant::Disks).then_some("4G");
        finished(self.tools.command("qemu-img").args(create).args(size))?;
        let file = self.work.join(REPORT);
        File::create(&file).and_then(|file| file.set_len(REPORT_SIZE)).map_err(Error::file(&file))?;

        let mut command = self.tools.command("timeout");
        command.args(["--signal=KILL", &format!("{PATIENCE}m"), "qemu-system-x86_64"]);
        command.args(arguments(self.clock)).args(["-uuid", self.variant.machine(), "-append"]);
        let root = if self.variant == Variant::Disks { "nvme0n1p1" } else { "nvme0n1" };
        command.arg(format!("root=/dev/{root} {KERNEL}{more}"));
        drive(&mut command, "root", overlay, "qcow2");
        drive(&mut command, "report", REPORT, "raw");
        // Everybody has the same devices: finding one more takes the kernel longer than anything that is measured here.
        drive(&mut command, "medium", self.medium, "raw");
        watched(&mut command, name)
    }
}

/// Runs a machine to its end, which must come after its report.
fn watched(command: &mut Command, variant: &'static str) -> Result<(), Error> {
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let failed = |source| Error::Command { line: format!("qemu-system-x86_64 ({variant})"), source };
    let mut child = command.spawn().map_err(failed)?;
    let mut console = String::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            console.push_str(&String::from_utf8_lossy(&line));
            console.push('\n');
        }
    }
    let status = child.wait().map_err(failed)?;
    if console.contains("BENCH-DONE") && !is_killed(status) {
        return Ok(());
    }
    let what = if is_killed(status) {
        format!("was killed: it did not turn itself off within {PATIENCE} minutes, or somebody else did it")
    } else {
        "did not report".to_owned()
    };
    Err(Error::Machine { variant, what, console: tail(&console, 30) })
}

/// Whether `timeout` was over. It kills its whole group, itself included; where it did not get to that it says so by its code.
fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

/// When networkd said that it has an address by DHCP: seconds since the kernel's entry.
fn lease(journal: &str) -> Option<f64> {
    let line = journal.lines().find(|line| line.contains(": DHCPv4 address "))?;
    line.trim_start_matches('[').split(']').next()?.trim().parse().ok()
}

/// What `systemctl show` says of the time of kilnd's units, as instructions.
fn instructions(units: &str) -> Option<u64> {
    /// `-icount shift=1`.
    const NANOSECONDS: u64 = 2;
    let of = |unit: &str| {
        let block = units.split("\n\n").find(|block| block.lines().any(|line| line == format!("Id={unit}")))?;
        let time: u64 = block.lines().find_map(|line| line.strip_prefix("CPUUsageNSec=")?.parse().ok())?;
        Some(time / NANOSECONDS)
    };
    Some(of("kiln-identity.service")? + of("kiln-config.service")?)
}

/// `/proc/uptime` as up and busy. One processor: what is not idle is busy.
fn times(text: &str) -> Option<(f64, f64)> {
    let (up, idle) = text.trim().split_once(' ')?;
    let (up, idle): (f64, f64) = (up.parse().ok()?, idle.parse().ok()?);
    Some((up, up - idle))
}

fn arguments(clock: Clock) -> Vec<&'static str> {
    let mut arguments = match clock {
        Clock::Wall => vec!["-accel", "tcg,thread=single,tb-size=512"],
        Clock::Instructions => vec!["-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=1,sleep=on"],
    };
    // Debian's cloud kernel has NVMe and ext4 built in: no initrd.
    arguments.extend(["-M", "q35", "-cpu", "max", "-smp", "1", "-m", "1024", "-nodefaults", "-display", "none"]);
    arguments.extend(["-no-reboot", "-serial", "stdio", "-kernel", "vmlinuz"]);
    arguments.extend(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
    arguments
}

fn drive(command: &mut Command, id: &str, file: &str, format: &str) {
    command.arg("-drive").arg(format!("if=none,id={id},file={file},format={format},cache=unsafe"));
    command.arg("-device").arg(format!("nvme,drive={id},serial={id}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_of_the_two_units_that_kubelet_waits_for() {
        let unit = |name: &str, time: &str| format!("Id={name}\nCPUUsageNSec={time}\n");
        let all = [unit("kiln-identity.service", "20"), unit("x.service", "9"), unit("kiln-config.service", "40")];
        assert_eq!(instructions(&all.join("\n")), Some(30));
        assert_eq!(instructions(&unit("x.service", "9")), None);
        assert_eq!(instructions(&unit("kiln-config.service", "[not set]")), None);
    }

    #[test]
    fn the_lease_is_when_networkd_says_so() {
        let journal = "[    8.93] n systemd-networkd[9]: e: Link UP\n\
                       [    9.341270] n systemd-networkd[9]: e: DHCPv4 address 10.0.2.15/24, gateway 10.0.2.2 acquired\n";
        assert_eq!(lease(journal), Some(9.34127));
        assert_eq!(lease("[    8.93] n systemd-networkd[9]: e: Link UP\n"), None);
    }

    #[test]
    fn a_machine_that_hangs_is_ended_and_told_with_its_console() {
        let run = |seconds: &str, lines: &str| {
            let mut command = Command::new("timeout");
            watched(command.args(["--signal=KILL", seconds, "sh", "-c", lines]), "floor")
                .map_err(|error| error.to_string())
        };
        assert_eq!(run("60", "echo BENCH-DONE"), Ok(()));
        let error = run("0.2", "echo early; sleep 600").unwrap_err();
        assert!(error.contains("`floor` was killed") && error.contains("early"), "{error}");
        let error = run("60", "echo panic").unwrap_err();
        assert!(error.contains("did not report") && error.contains("panic"), "{error}");
    }

    #[test]
    fn busy_is_what_is_not_idle() {
        assert_eq!(times("6.5 0.25\n"), Some((6.5, 6.25)));
        assert_eq!(times("6.5"), None);
        assert_eq!(times("a b"), None);
    }
}
