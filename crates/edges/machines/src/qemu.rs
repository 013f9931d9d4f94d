//! Virtual machines by QEMU: the command line, runs with a deadline, and the power button.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::tools::{Needed, command, program};
use crate::{Error, command as programs};

const PROGRAM: &str = "qemu-system-x86_64";

/// The programs of this module.
pub const NEEDED: [Needed; 3] =
    [(PROGRAM, "qemu-system-x86"), ("qemu-img", "qemu-utils"), ("genisoimage", "genisoimage")];

/// How long QEMU may take to switch to another file: it waits for the requests that are in flight.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(20);

/// The asset tag of Azure's chassis, from which a guest detects its platform.
pub const AZURE_ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// The way in which QEMU executes a machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor of the host.
    Kvm,
    /// QEMU, with one thread of the host per virtual processor.
    Emulation,
    /// QEMU, with one thread of the host for all virtual processors.
    SingleThread,
    /// As `SingleThread`, with a clock that counts instructions, 2 ns each: other work on the host does not change the measured time.
    Instructions,
}

impl Accelerator {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
            Self::Emulation => &["-accel", "tcg,tb-size=512", "-cpu", "max"],
            Self::SingleThread => &["-accel", "tcg,thread=single,tb-size=512", "-cpu", "max"],
            Self::Instructions => {
                &["-accel", "tcg,thread=single,tb-size=512", "-cpu", "max", "-icount", "shift=1,sleep=on"]
            }
        }
    }
}

/// An `NVMe` disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// The id in QEMU and the serial number in the machine.
    pub id: &'a str,
    pub file: &'a Path,
    /// `raw` or `qcow2`.
    pub format: &'a str,
    /// Records every write and flush in this file, with QEMU's `blklogwrites` driver.
    pub log: Option<&'a Path>,
}

impl Disk<'_> {
    fn drive(&self) -> String {
        let Self { id, format, .. } = self;
        let file = escape(self.file);
        match self.log {
            // A machine need not survive a power failure of the host, so the host never waits for its own disk.
            None => format!("if=none,id={id},file={file},format={format},cache=unsafe"),
            // Ignored flushes would not be recorded.
            Some(log) => format!(
                "if=none,id={id},driver=blklogwrites,file.driver={format},file.file.driver=file,file.file.filename={file},\
                 log.driver=file,log.filename={},cache.no-flush=off",
                escape(log)
            ),
        }
    }
}

/// The network card of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network<'a> {
    None,
    /// QEMU's own network: an address by DHCP and connections from the network namespace that QEMU runs in.
    User,
    /// A tap device that exists already.
    Tap {
        device: &'a str,
        hardware_address: &'a str,
    },
}

/// A virtual machine. Its console is QEMU's standard output.
#[derive(Clone, Debug)]
pub struct VirtualMachine<'a> {
    /// The root folder of a Debian that has QEMU, if it is not this system's own.
    pub tools: Option<&'a Path>,
    pub accelerator: Accelerator,
    pub cores: u32,
    pub memory_mib: u32,
    /// The UUID that the firmware shows.
    pub vm_id: Option<&'a str>,
    pub asset_tag: Option<&'a str>,
    pub disks: Vec<Disk<'a>>,
    pub network: Network<'a>,
    /// A kernel and its arguments, instead of the boot loader on the first disk.
    pub kernel: Option<(&'a Path, &'a str)>,
    /// The socket for [`press_power_button`].
    pub monitor: Option<&'a Path>,
    /// Whether a reboot restarts the machine instead of ending it.
    pub may_reboot: bool,
}

impl VirtualMachine<'_> {
    /// A machine with one processor and no devices. `tools` is the root folder of a Debian that has QEMU, if it is not this system's own.
    pub fn new(tools: Option<&Path>, accelerator: Accelerator) -> VirtualMachine<'_> {
        VirtualMachine {
            tools,
            accelerator,
            cores: 1,
            memory_mib: 256,
            vm_id: None,
            asset_tag: None,
            disks: Vec::new(),
            network: Network::None,
            kernel: None,
            monitor: None,
            may_reboot: false,
        }
    }

    /// Appends QEMU and its arguments to a command that runs its arguments, such as [`deadline`].
    pub fn append_to(&self, command: &mut Command) {
        command.args(program(self.tools, PROGRAM)).args(self.accelerator.arguments());
        let (cores, memory) = (self.cores.to_string(), self.memory_mib.to_string());
        command.args(["-M", "q35", "-smp", &cores, "-m", &memory]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
        if !self.may_reboot {
            command.arg("-no-reboot");
        }
        if let Some(id) = self.vm_id {
            command.args(["-uuid", id]);
        }
        if let Some(tag) = self.asset_tag {
            command.args(["-smbios", &format!("type=3,asset={tag}")]);
        }
        if let Some(socket) = self.monitor {
            command.args(["-monitor", &format!("unix:{},server,nowait", escape(socket))]);
        }
        for disk in &self.disks {
            command.args(["-drive", &disk.drive(), "-device", &format!("nvme,drive={0},serial={0}", disk.id)]);
        }
        match self.network {
            Network::None => {}
            Network::User => {
                command.args(["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]);
            }
            Network::Tap { device, hardware_address } => {
                let tap = format!("tap,id=net,ifname={device},script=no,downscript=no");
                let card = format!("virtio-net-pci,netdev=net,romfile=,mac={hardware_address}");
                command.args(["-netdev", &tap, "-device", &card]);
            }
        }
        if let Some(root) = self.tools {
            for data in ["usr/share/seabios", "usr/share/qemu"] {
                command.arg("-L").arg(root.join(data));
            }
            // Half of QEMU is in modules, which it looks for in the path that it was built for.
            let library = format!("usr/lib/{}-linux-gnu/qemu", std::env::consts::ARCH);
            command.env("QEMU_MODULE_DIR", root.join(library));
        }
        if let Some((kernel, arguments)) = self.kernel {
            command.arg("-kernel").arg(kernel).args(["-append", arguments]);
        }
    }

    /// Runs the machine until it turns itself off, at most this long.
    pub fn run(&self, seconds: u32) -> Result<Ended, Error> {
        let mut command = deadline(&seconds.to_string());
        self.append_to(&mut command);
        run_to_end(&mut command)
    }
}

/// A machine that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub console: String,
    /// Whether it was killed, at its deadline or by another process.
    pub is_killed: bool,
}

/// A command that runs its arguments and kills them after a while, also when this process was killed before.
pub fn deadline(seconds: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", seconds]);
    command
}

/// Runs a command of [`deadline`] to its end. Its errors go to standard error.
pub fn run_to_end(command: &mut Command) -> Result<Ended, Error> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(Error::spawn("timeout"))?;
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Ended { console, is_killed: is_killed(output.status) })
}

/// Whether `timeout` killed its command. It usually kills itself too, because it kills its whole process group; otherwise its exit code is 137.
fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9) || status.code() == Some(128 + 9)
}

/// Presses the power button of a machine. A system that has not started far enough does not notice.
pub fn press_power_button(monitor: &Path) {
    if let Ok(mut stream) = UnixStream::connect(monitor) {
        let _ = stream.write_all(b"system_powerdown\n");
    }
}

/// Lets a running machine continue to write to `file`, an existing qcow2 file on top of the one that `drive` uses now. Writes are held back
/// for a moment; everything written before is in the file below.
pub fn switch_disk(monitor: &Path, drive: &str, file: &Path) -> Result<(), Error> {
    let failed = |source| Error::file(monitor)(source);
    let mut stream = UnixStream::connect(monitor).map_err(failed)?;
    stream.set_read_timeout(Some(SWITCH_TIMEOUT)).map_err(failed)?;
    let commands = format!("snapshot_blkdev -n {drive} \"{0}\" qcow2\ninfo block {drive}\n", file.display());
    stream.write_all(commands.as_bytes()).map_err(failed)?;
    let (mut seen, mut part) = (String::new(), [0; 4096]);
    // `info block` shows the file in use, in one of two forms: the second one if the path of the file below is written differently in the new
    // file's header. The echo of the commands has neither form.
    let used = [format!("): {} (qcow2)", file.display()), format!("\"filename\": \"{}\"", file.display())];
    let end = "Cache mode:";
    while !seen.contains(end) {
        match stream.read(&mut part).map_err(failed)? {
            0 => break,
            length => seen.push_str(&String::from_utf8_lossy(&part[..length])),
        }
    }
    if used.iter().any(|used| seen.contains(used)) {
        return Ok(());
    }
    let shown = seen.lines().find(|line| line.contains("Error") || line.starts_with(&format!("{drive} (")));
    let output = shown.unwrap_or("QEMU did not answer").trim().to_owned();
    Err(Error::Failed { line: format!("snapshot_blkdev {drive}"), status: "no new file".to_owned(), output })
}

/// Writes the files of a folder to an ISO image that only its owner may read: provisioning media contain custom data.
pub fn make_iso(tools: Option<&Path>, image: &Path, folder: &Path) -> Result<(), Error> {
    write_iso(command(tools, "genisoimage"), image, folder)
}

fn write_iso(mut command: Command, image: &Path, folder: &Path) -> Result<(), Error> {
    private_file(image).map_err(Error::file(image))?;
    programs::run(command.args(["-quiet", "-joliet", "-rock", "-o"]).arg(image).arg(folder))
}

/// Creates or empties a file that only its owner may read, whatever mode it had before.
pub fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// A path inside an option of QEMU, where a comma is written twice.
fn escape(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::command::command_line;

    #[test]
    fn comma_in_a_path_is_doubled() {
        assert_eq!(escape(Path::new("/a, b/node:1=a.qcow2")), "/a,, b/node:1=a.qcow2");
    }

    #[test]
    fn command_line_has_what_the_machine_has() {
        let mut machine = VirtualMachine::new(None, Accelerator::Instructions);
        machine.kernel = Some((Path::new("vmlinuz"), "console=ttyS0 rw"));
        machine.disks.push(Disk { id: "root", file: Path::new("a.raw"), format: "raw", log: None });
        let mut command = deadline("60");
        machine.append_to(&mut command);
        let line = command_line(&command);
        assert_eq!(
            line,
            "timeout --signal=KILL 60 qemu-system-x86_64 -accel tcg,thread=single,tb-size=512 -cpu max -icount \
             shift=1,sleep=on -M q35 -smp 1 -m 256 -nodefaults -display none -serial stdio -no-reboot -drive \
             if=none,id=root,file=a.raw,format=raw,cache=unsafe -device nvme,drive=root,serial=root -kernel vmlinuz \
             -append console=ttyS0 rw"
        );
        assert!(command.get_envs().next().is_none());
    }

    #[test]
    fn machine_that_hangs_is_killed_and_its_console_is_kept() {
        let run = |seconds: &str, lines: &str| run_to_end(deadline(seconds).args(["sh", "-c", lines])).unwrap();
        let ended = |console: &str, is_killed| Ended { console: console.to_owned(), is_killed };
        assert_eq!(run("60", "echo done"), ended("done\n", false));
        assert_eq!(run("0.2", "echo early; sleep 600"), ended("early\n", true));
        assert_eq!(run("60", "echo panic; exit 1"), ended("panic\n", false));
    }

    #[test]
    fn iso_image_is_private_before_its_first_byte() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("media.iso");
        fs::write(&image, "earlier").unwrap();
        fs::set_permissions(&image, Permissions::from_mode(0o644)).unwrap();
        // Stands in for genisoimage, which overwrites a file that exists.
        let mut command = Command::new("sh");
        command.args(["-c", "stat --format %a \"$5\" >\"$5\"", "genisoimage"]);
        write_iso(command, &image, folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&image).unwrap().trim(), "600", "before the first byte");
        assert_eq!(fs::metadata(&image).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
