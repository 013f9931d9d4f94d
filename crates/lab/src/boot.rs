//! One boot of one machine.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::expected::Configured;
use crate::world::{Tools, finished, folder, tail};
use crate::{Error, Variant};

/// The room for a report. A capture of some two hundred units with the journal takes a few MiB.
const REPORT_SIZE: u64 = 64 << 20;

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
    /// Instructions that kilnd's units took until their boot was over, the kernel's work for them included; where kilnd was there.
    pub instructions: Option<u64>,
    /// The folder with the capture (`manager.txt`, `units.txt`) and the journal.
    pub capture: PathBuf,
    /// What the node had in the end.
    pub configured: Configured,
}

/// What a machine is made of, below the tools' work folder.
pub(crate) struct Machine<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) work: &'a Path,
    pub(crate) variant: Variant,
    pub(crate) disk: &'a str,
    pub(crate) medium: &'a str,
    pub(crate) clock: Clock,
}

impl Machine<'_> {
    /// Boots it from a fresh copy of its disk, waits until it turned itself off, and reads its report.
    pub(crate) fn boot(&self, number: usize) -> Result<Boot, Error> {
        let name = self.variant.name();
        let (overlay, report) = ("overlay.qcow2", "report.raw");
        let create = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.disk, overlay];
        finished(self.tools.command("qemu-img").args(create))?;
        let file = self.work.join(report);
        File::create(&file).and_then(|file| file.set_len(REPORT_SIZE)).map_err(Error::file(&file))?;

        let mut command = self.tools.command("qemu-system-x86_64");
        command.args(arguments(self.clock));
        drive(&mut command, "root", overlay, "qcow2");
        drive(&mut command, "report", report, "raw");
        // Everybody has the same devices: finding one more takes the kernel longer than anything that is measured here.
        drive(&mut command, "medium", self.medium, "raw");
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let failed = |source| Error::Command { line: format!("qemu-system-x86_64 ({name})"), source };
        let mut child = command.spawn().map_err(failed)?;
        let mut console = String::new();
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                console.push_str(&String::from_utf8_lossy(&line));
                console.push('\n');
            }
        }
        child.wait().map_err(failed)?;
        let machine = |what: &str| Error::Machine { variant: name, what: what.to_owned(), console: tail(&console, 30) };
        if !console.contains("LAB-DONE") {
            return Err(machine("did not report"));
        }
        let capture = self.work.join("out").join(format!("{name}-{number}"));
        if capture.exists() {
            fs::remove_dir_all(&capture).map_err(Error::file(&capture))?;
        }
        folder(&capture)?;
        let inside = format!("out/{name}-{number}");
        finished(self.tools.command("tar").args(["-x", "-f", report, "-C", &inside]))?;
        let start = capture.join("start");
        let text = fs::read_to_string(&start).map_err(Error::file(&start))?;
        let (up, busy) = times(&text).ok_or_else(|| machine("has a clock that cannot be read"))?;
        let configured = Configured::read(&capture.join("configured"))?;
        let units = capture.join("units.txt");
        let units = fs::read_to_string(&units).map_err(Error::file(&units))?;
        let instructions = (self.clock == Clock::Instructions).then(|| instructions(&units)).flatten();
        Ok(Boot { up, busy, instructions, capture, configured })
    }
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
    // Debian's cloud kernel has NVMe and ext4 built in: no initrd. An id, as every machine of a cloud has one.
    arguments.extend(["-M", "q35", "-cpu", "max", "-smp", "1", "-m", "1024", "-nodefaults", "-display", "none"]);
    arguments.extend(["-uuid", "6f2c6a4e-58ab-4c59-9a65-1f6d0c1b7a02", "-no-reboot", "-serial", "stdio"]);
    arguments.extend(["-kernel", "vmlinuz", "-append"]);
    // A kernel that gives up turns the machine off.
    arguments.push("console=ttyS0 root=/dev/nvme0n1 rw mitigations=off quiet panic=-1");
    arguments.extend(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
    arguments
}

fn drive(command: &mut std::process::Command, id: &str, file: &str, format: &str) {
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
    fn busy_is_what_is_not_idle() {
        assert_eq!(times("6.5 0.25\n"), Some((6.5, 6.25)));
        assert_eq!(times("6.5"), None);
        assert_eq!(times("a b"), None);
    }
}
