//! Virtual machines: what QEMU is told, and how one is asked to shut down.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::command::finished;
use super::machine::private_file;
use super::tools::{Needed, must_have, program};
use super::{World, WorldError, address, hardware};
use crate::Body;

pub(super) const QEMU: &str = include_str!("qemu.sh");

const NEEDED: [Needed; 3] =
    [("qemu-system-x86_64", "qemu-system-x86"), ("qemu-img", "qemu-utils"), ("genisoimage", "genisoimage")];

/// What is this system's own wherever QEMU comes from.
const NEEDED_HERE: [Needed; 1] = [("timeout", "coreutils")];

/// The kernel's arguments where it does not come from the disk. Debian's kernel for clouds has `NVMe` and ext4 built in, so that there is no
/// initrd; its first network card is `eth0`, as in a cloud; and one that gives up restarts the machine, as a real one does.
const KERNEL: &str = "console=ttyS0 root=/dev/nvme0n1 rw mitigations=off net.ifnames=0 panic=1";

/// How long a kernel may take to come to where it looks for its root when it runs on hardware: a second. Software that only looks like it
/// took minutes for the first lines.
const PROBE_SECONDS: &str = "15";

impl World {
    /// A virtual machine of its own session.
    pub(super) fn qemu(&self, body: &Body, folder: &Path, disk: &Path) -> Result<Command, WorldError> {
        must_have(self.qemu_root(), &NEEDED)?;
        must_have(None, &NEEDED_HERE)?;
        let medium = self.iso(body, folder)?;
        let kernel = self.kernel(disk)?;
        let fast = match &kernel {
            Some(kernel) => self.hardware_runs(kernel)?,
            None => false,
        };
        let mut words = self.tool("qemu-system-x86_64");
        let mut say = |all: &[&str]| words.extend(all.iter().map(OsString::from));
        say(accelerated(fast));
        let (cores, memory) = (body.cores.to_string(), body.memory_mib.to_string());
        say(&["-M", "q35", "-smp", &cores, "-m", &memory, "-nodefaults", "-display", "none", "-serial", "stdio"]);
        say(&["-uuid", &body.vm_id]);
        // What Azure's firmware says, by which a guest knows where it is.
        say(&["-smbios", "type=3,asset=7783-7084-3265-9085-8269-3286-77"]);
        say(&["-monitor", &format!("unix:{},server,nowait", escaped(&monitor(folder)))]);
        for (id, file, format) in [("root", disk, "qcow2"), ("medium", medium.as_path(), "raw")] {
            say(&["-drive", &format!("if=none,id={id},file={},format={format},cache=unsafe", escaped(file))]);
            say(&["-device", &format!("nvme,drive={id},serial={id}")]);
        }
        let wire = format!("tap,id=net,ifname=m{},script=no,downscript=no", body.number);
        let card = format!("virtio-net-pci,netdev=net,romfile=,mac={}", address::hardware_address(body.number));
        say(&["-netdev", &wire, "-device", &card]);
        if let Some(root) = self.qemu_root() {
            for data in ["usr/share/seabios", "usr/share/qemu"] {
                say(&["-L", &root.join(data).display().to_string()]);
            }
        }
        if let Some(kernel) = &kernel {
            say(&["-kernel", &kernel.display().to_string(), "-append", KERNEL]);
        }
        let mut command = self.detached(body, folder)?;
        command.args(["sh", "-c", QEMU, "qemu"]).args(words);
        self.find_modules(&mut command);
        Ok(command)
    }

    /// Half of QEMU is in files that it looks for where it was built to be.
    fn find_modules(&self, command: &mut Command) {
        if let Some(root) = self.qemu_root() {
            let library = format!("usr/lib/{}-linux-gnu/qemu", std::env::consts::ARCH);
            command.env("QEMU_MODULE_DIR", root.join(library));
        }
    }

    fn tool(&self, name: &str) -> Vec<OsString> {
        program(self.qemu_root(), name)
    }

    fn command(&self, name: &str) -> Command {
        let words = self.tool(name);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// The provisioning medium, as Azure hands it to a machine.
    fn iso(&self, body: &Body, folder: &Path) -> Result<PathBuf, WorldError> {
        hardware::prepare(folder, body)?;
        written(self.command("genisoimage"), folder)
    }

    /// The kernel beside the lowest file of a disk, `FILE.vmlinuz`. A disk without one starts by what is on it.
    fn kernel(&self, disk: &Path) -> Result<Option<PathBuf>, WorldError> {
        let mut command = self.command("qemu-img");
        command.args(["info", "--force-share", "--backing-chain", "--output=json"]).arg(disk);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|source| WorldError::Program { program: "qemu-img".to_owned(), source })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(WorldError::Failed { line: format!("qemu-img info {}", disk.display()), output: said });
        }
        let chain: Value = serde_json::from_slice(&output.stdout)
            .map_err(|source| WorldError::Record { path: disk.to_owned(), source })?;
        let lowest = chain.as_array().and_then(|all| all.last()).and_then(|file| file["filename"].as_str());
        let kernel = lowest.map(|file| PathBuf::from(format!("{file}.vmlinuz")));
        Ok(kernel.filter(|kernel| kernel.exists()))
    }

    /// Whether the processor itself runs a kernel. `/dev/kvm` alone does not say so: it may be there and take minutes for a second's work. So a
    /// kernel is started without a root, once for each world, and must complain about that in time.
    fn hardware_runs(&self, kernel: &Path) -> Result<bool, WorldError> {
        let known = super::record::run_folder(self.state()).join("kvm");
        if let Ok(answer) = fs::read_to_string(&known) {
            return Ok(answer == "yes");
        }
        let works = Path::new("/dev/kvm").exists() && {
            let mut command = deadline(PROBE_SECONDS);
            command.args(self.tool("qemu-system-x86_64")).args(accelerated(true));
            command.args(["-M", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]);
            command.args(["-serial", "stdio"]);
            let root = self.qemu_root().into_iter();
            for data in root.flat_map(|root| ["usr/share/seabios", "usr/share/qemu"].map(|data| root.join(data))) {
                command.arg("-L").arg(data);
            }
            command.arg("-kernel").arg(kernel).args(["-append", "console=ttyS0 panic=-1"]);
            self.find_modules(&mut command);
            looks_for_a_root(&mut command)
        };
        fs::write(&known, if works { "yes" } else { "no" }).map_err(WorldError::file(&known))?;
        Ok(works)
    }
}

/// Runs what makes a medium of a machine's folder. Custom data is on it, so it is its owner's alone from its first byte on.
fn written(mut command: Command, folder: &Path) -> Result<PathBuf, WorldError> {
    let medium = folder.join("medium.iso");
    private_file(&medium).map_err(WorldError::file(&medium))?;
    finished(command.args(["-quiet", "-joliet", "-rock", "-o"]).arg(&medium).arg(folder.join("hardware/cd")))?;
    Ok(medium)
}

/// A path within one of QEMU's options: a comma would end it there, and two are one.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// What kills the program that is its argument after a while.
fn deadline(seconds: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", seconds]);
    command
}

/// Whether a kernel that has no root got so far as to say so.
fn looks_for_a_root(command: &mut Command) -> bool {
    let output = command.stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Unable to mount root"))
}

fn accelerated(by_hardware: bool) -> &'static [&'static str] {
    if by_hardware { &["-accel", "kvm", "-cpu", "host"] } else { &["-accel", "tcg,tb-size=512", "-cpu", "max"] }
}

/// Where a virtual machine's monitor is. Only they have one.
pub(super) fn monitor(folder: &Path) -> PathBuf {
    folder.join("monitor")
}

/// Presses the power button. A system that is not up yet does not notice.
pub(super) fn press_power_button(folder: &Path) {
    if let Ok(mut stream) = UnixStream::connect(monitor(folder)) {
        let _ = stream.write_all(b"system_powerdown\n");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_comma_in_a_path_is_doubled_and_nothing_else_changes() {
        assert_eq!(escaped(Path::new("/lab, old/node:1=a.qcow2")), "/lab,, old/node:1=a.qcow2");
    }

    #[test]
    fn a_medium_is_its_owners_alone_even_where_it_was_everybodys() {
        let folder = tempfile::tempdir().unwrap();
        let medium = folder.path().join("medium.iso");
        fs::write(&medium, "earlier").unwrap();
        fs::set_permissions(&medium, fs::Permissions::from_mode(0o644)).unwrap();
        // In place of genisoimage: what it does to a file that is there.
        let program = folder.path().join("genisoimage");
        testkit::script(&program, "stat --format %a \"$5\" >\"$5\"");
        assert_eq!(written(Command::new(&program), folder.path()).unwrap(), medium);
        assert_eq!(fs::read_to_string(&medium).unwrap().trim(), "600", "before the first byte");
        assert_eq!(fs::metadata(&medium).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_processor_is_used_only_where_a_kernel_ran_on_it_in_time() {
        // What a kernel without a root says, as it restarts the machine.
        let words = "echo 'Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)'";
        let probe = |seconds: &str, lines: &str| looks_for_a_root(deadline(seconds).args(["sh", "-c", lines]));
        assert!(probe("60", words));
        assert!(!probe("60", "echo 'Could not access KVM kernel module' >&2; exit 1"), "it failed");
        assert!(!probe("60", "echo 'Linux version 6.1.0'"), "it did not come so far");
        assert!(!probe("0.2", &format!("echo early; sleep 60; {words}")), "it took too long");
        assert!(!looks_for_a_root(deadline("60").arg("/nowhere/qemu-system-x86_64")), "it is not there");
    }
}
