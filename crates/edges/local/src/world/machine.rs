//! Switching machines of a world on and off.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kiln_types::PowerDown;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::address::{self, BRIDGE, GATEWAY, PREFIX};
use super::processes::{children, family, lives, name, numbers};
use super::record::held;
use super::tools::{SEARCHED, must_have};
use super::{World, WorldError, hardware, qemu};
use crate::{Body, DiskPath, MachineKey, Power, PowerError};

/// How often is looked.
const TICK: Duration = Duration::from_millis(25);
/// How long a machine may take to have a first process. A second is usual; a machine that compiles on every core has taken twenty.
const STARTED: u32 = 60_000 / 25;
/// How long others may go on looking at a machine that is to be switched on. Each look takes microseconds.
const LOOKED_AT: u32 = 2_000 / 25;
/// How long a machine that is to go down may take to come up so far that it can be told.
const HEARS: u32 = 20_000 / 25;
/// How long a machine may take to shut down by itself: systemd gives a service 90 seconds by default, a platform gives a machine less.
const SHUT_DOWN: u32 = 45_000 / 25;
/// How often a virtual machine's power button is pressed meanwhile.
const PRESSES: u32 = 2_000 / 25;
/// How long the kernel may take to bury what was killed.
const BURIED: u32 = 20_000 / 25;

/// The clock and the modules are the host's, and no node needs to change either.
const DROPPED: &str = "--drop-capability=CAP_SYS_TIME,CAP_SYS_MODULE";

const NSPAWN: &str = include_str!("nspawn.sh");

impl Power for World {
    async fn switch_on(&self, body: &Body) -> Result<(), PowerError> {
        self.on(body).await.map_err(|error| failed("switch on", &body.name, error))
    }

    async fn switch_off(&self, name: &MachineKey, _how: PowerDown) -> Result<(), PowerError> {
        self.off(name).await.map_err(|error| failed("switch off", name, error))
    }

    async fn is_on(&self, name: &MachineKey) -> Result<bool, PowerError> {
        held(&self.lock(name)).map_err(|error| failed("look at", name, error))
    }
}

fn failed(act: &'static str, machine: &MachineKey, error: WorldError) -> PowerError {
    PowerError { act, machine: machine.clone(), source: Box::new(error) }
}

impl World {
    fn lock(&self, name: &MachineKey) -> PathBuf {
        self.machine(name.as_str()).join("lock")
    }

    async fn on(&self, body: &Body) -> Result<(), WorldError> {
        let lock = self.lock(&body.name);
        if !held(&lock)? {
            let folder = self.machine(body.name.as_str());
            fs::create_dir_all(&folder).map_err(WorldError::file(&folder))?;
            forget(&folder)?;
            let mut command = match &body.disk {
                DiskPath::Folders { lower, upper, work } => self.nspawn(body, &folder, lower, upper, work)?,
                DiskPath::Qcow2(disk) => self.qemu(body, &folder, disk)?,
            };
            // From here on the machine is on, whatever becomes of this process: the lock is its own as soon as it is there.
            command.stdin(taken(&lock).await?);
            started(command)?;
        }
        self.wait_started(&body.name).await
    }

    /// A machine of its own session: whoever switched it on may end before it does.
    fn nspawn(
        &self,
        body: &Body,
        folder: &Path,
        lower: &[PathBuf],
        upper: &Path,
        work: &Path,
    ) -> Result<Command, WorldError> {
        must_have(self.record.tools.nspawn.as_deref(), &[("systemd-nspawn", "systemd-container")])?;
        let mounts = hardware::prepare(folder, body)?;
        let layers: Vec<String> = lower.iter().rev().map(|path| self.seen(path)).collect();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", layers.join(":"), self.seen(upper), self.seen(work));
        let tools = self.record.tools.nspawn.as_deref().unwrap_or(Path::new(""));
        let mut command = self.detached(body, folder)?;
        command
            .args(["sh", "-c", NSPAWN, "nspawn"])
            .args(mounts)
            // What a machine's root may do, kubelet and containerd need; the kernel's log they read.
            .args(["--capability=all", DROPPED])
            .args(["--bind=/dev/kmsg", "--system-call-filter=@keyring bpf", "--resolv-conf=off"])
            // A machine learns its name from its platform, not from who started it.
            .arg("--hostname=localhost")
            .env("LAYERS", options)
            .env("BASE", self.state())
            .env("TOOLS", tools)
            .env("NAME", &body.computer_name);
        Ok(command)
    }

    /// A path as short as it can be said from the state folder: the options of a mount are a page at most.
    fn seen(&self, path: &Path) -> String {
        path.strip_prefix(self.state()).unwrap_or(path).display().to_string()
    }

    /// What starts a machine: in a session of its own, with its console in a file and the world's network by variables.
    pub(super) fn detached(&self, body: &Body, folder: &Path) -> Result<Command, WorldError> {
        let console = self.console(body.name.as_str());
        let consoles = console.parent().unwrap_or(&console);
        fs::create_dir_all(consoles).map_err(WorldError::file(consoles))?;
        let output = private_file(&console).map_err(WorldError::file(&console))?;
        let second = output.try_clone().map_err(WorldError::file(&console))?;
        let mut command = Command::new("setsid");
        command
            .arg("--fork")
            .current_dir("/")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| SEARCHED.into()))
            .env("FOLDER", folder)
            .env("WORLD", &self.record.group)
            .env("ADDRESS", format!("{}/{PREFIX}", address::address(body.number)?))
            .env("GATEWAY", GATEWAY.to_string())
            .env("BRIDGE", BRIDGE)
            .env("WIRE", format!("m{}", body.number))
            .env("MAC", address::hardware_address(body.number))
            .stdout(output)
            .stderr(second);
        Ok(command)
    }

    /// Waits until the machine has a first process of its own. A machine that is on already is waited for in the same way: whoever
    /// switched it on may have been killed half-way.
    async fn wait_started(&self, name: &MachineKey) -> Result<(), WorldError> {
        for _ in 0..STARTED {
            if self.leader(name).is_some() {
                return Ok(());
            }
            if !held(&self.lock(name))? {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        Err(WorldError::NotStarted { console: self.said(name) })
    }

    /// The end of what a machine's console said.
    fn said(&self, name: &MachineKey) -> String {
        let text = fs::read(self.console(name.as_str())).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    async fn off(&self, name: &MachineKey) -> Result<(), WorldError> {
        let lock = self.lock(name);
        // Nothing that a machine left says anything once it is off: its number may be somebody else's by now.
        if !held(&lock)? {
            return Ok(());
        }
        let folder = self.machine(name.as_str());
        if qemu::monitor(&folder).exists() {
            // A system that is still coming up does not notice the button; later it does.
            for _ in 0..SHUT_DOWN / PRESSES {
                qemu::press_power_button(&folder);
                if gone(&lock, PRESSES).await? {
                    return Ok(());
                }
            }
        } else if self.hears(name).await?
            && let Some(runner) = self.runner(name)
        {
            // systemd-nspawn shuts its machine down in good order on this signal. A service manager that is not up yet would not hear of it.
            signal(runner, Signal::TERM);
            if gone(&lock, SHUT_DOWN).await? {
                return Ok(());
            }
        }
        if held(&lock)? {
            let pid = self.pid(name);
            // The lock goes with the outermost processes, the disk with the last of those that they take along.
            let all: Vec<u32> = pid.into_iter().flat_map(family).collect();
            if let Some(pid) = pid {
                signal(pid, Signal::KILL);
            }
            if !gone(&lock, BURIED).await? || !buried(&all, BURIED).await {
                return Err(WorldError::Lingers { seconds: u64::from(BURIED) * 25 / 1000 });
            }
        }
        Ok(())
    }

    /// Waits until the machine's service manager can be told anything; whether it can.
    async fn hears(&self, name: &MachineKey) -> Result<bool, WorldError> {
        for _ in 0..HEARS {
            let up = |leader: u32| Path::new(&format!("/proc/{leader}/root/run/systemd/private")).exists();
            if self.leader(name).is_some_and(up) {
                return Ok(true);
            }
            if !held(&self.lock(name))? {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(false)
    }

    /// The process that the machine stands and falls with.
    fn pid(&self, name: &MachineKey) -> Option<u32> {
        fs::read_to_string(self.machine(name.as_str()).join("pid")).ok()?.trim().parse().ok()
    }

    /// The process that runs the machine: systemd-nspawn or QEMU.
    fn runner(&self, name: &MachineKey) -> Option<u32> {
        let inside = children(self.pid(name)?).into_iter().next()?;
        children(inside).into_iter().next()
    }

    /// The first process of the machine's own system, by our number for it; for a virtual machine QEMU itself.
    pub fn leader(&self, machine: &MachineKey) -> Option<u32> {
        if !held(&self.lock(machine)).unwrap_or(false) {
            return None;
        }
        let runner = self.runner(machine)?;
        if qemu::monitor(&self.machine(machine.as_str())).exists() {
            return Some(runner);
        }
        let own = numbers(std::process::id()).len();
        let is_first = |id: &u32| {
            let all = numbers(*id);
            all.len() == own + 2 && all.last() == Some(&1) && name(*id) == "systemd"
        };
        family(runner).into_iter().find(is_first)
    }
}

/// Removes what an earlier life of a machine left, which was killed perhaps: its number would be taken for the new one's, and a monitor for
/// that of a virtual machine, though one of the same name may be none.
fn forget(folder: &Path) -> Result<(), WorldError> {
    for path in [folder.join("pid"), qemu::monitor(folder)] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WorldError::File { path, source: error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// A file that its owner alone reads, empty. One of an older kiln may have been everybody's.
pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// The lock of a machine that is off. Who only looks whether it is on holds the lock for a moment, which is waited for.
async fn taken(path: &Path) -> Result<File, WorldError> {
    let lock = File::create(path).map_err(WorldError::file(path))?;
    let mut looks = 0;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if looks < LOOKED_AT => looks += 1,
            Err(error) => return Err(WorldError::File { path: path.to_owned(), source: error.into() }),
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Runs what starts a machine and goes on without it. The lock is the machine's alone afterwards.
fn started(mut command: Command) -> Result<(), WorldError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    drop(command);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(WorldError::Failed { line: program, output: status.to_string() }),
        Err(source) => Err(WorldError::Program { program, source }),
    }
}

/// Waits until nobody holds a machine's lock.
async fn gone(lock: &Path, ticks: u32) -> Result<bool, WorldError> {
    for _ in 0..ticks {
        if !held(lock)? {
            return Ok(true);
        }
        tokio::time::sleep(TICK).await;
    }
    Ok(false)
}

/// Waits until none of these processes has anything open any more.
async fn buried(processes: &[u32], ticks: u32) -> bool {
    for _ in 0..ticks {
        if !processes.iter().any(|id| lives(*id)) {
            return true;
        }
        tokio::time::sleep(TICK).await;
    }
    false
}

/// One that is gone already is as good as signalled.
fn signal(process: u32, signal: Signal) {
    if let Some(process) = Pid::from_raw(process.cast_signed()) {
        let _ = kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests;
