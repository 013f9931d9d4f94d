//! Starting and stopping the machines of a sandbox.
//!
//! A machine runs in a new session and holds the lock of its folder from before its first instruction until its last process has ended. The
//! lock shows whether a machine is running; the process id in the folder is valid only while the lock is held.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kiln_machines::command::tail;
use kiln_machines::processes::{children, family, is_running, signal};
use kiln_machines::qemu::{press_power_button, private_file, switch_disk};
use kiln_machines::tools::{self, DEFAULT_PATH};
use kiln_machines::{Overlay, nspawn};
use kiln_types::PowerDown;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Signal;

use super::address::{self, BRIDGE, GATEWAY, PREFIX};
use super::qemu::{ROOT_DRIVE, port};
use super::record::is_locked;
use super::{Sandbox, SandboxError, platform, qemu};
use crate::{DiskPath, MachineConfig, MachineKey, MachineRunner, RunnerError};

/// Poll interval of everything that this module waits for. The limits below are numbers of polls.
const TICK: Duration = Duration::from_millis(25);
/// Until a machine has a first process. One second is usual; a host that compiles on every core has taken twenty.
const START_LIMIT: u32 = 60_000 / 25;
/// Until other processes stop testing the lock of a machine that is about to start. Each test takes microseconds.
const LOCK_LIMIT: u32 = 2_000 / 25;
/// Until the service manager of a machine that is to be stopped accepts requests.
const MANAGER_LIMIT: u32 = 20_000 / 25;
/// Until a machine has shut down by itself. systemd gives a service 90 s by default; a cloud gives a machine less.
const SHUTDOWN_LIMIT: u32 = 45_000 / 25;
/// Between two presses of a virtual machine's power button during shutdown.
const PRESS_INTERVAL: u32 = 2_000 / 25;
/// Until the kernel has removed killed processes.
const KILL_LIMIT: u32 = 20_000 / 25;

/// The clock and the kernel modules belong to the host, and no node needs to change them.
const DROPPED: &str = "--drop-capability=CAP_SYS_TIME,CAP_SYS_MODULE";

const START_NSPAWN: &str = include_str!("start-nspawn.sh");

impl MachineRunner for Sandbox {
    async fn start(&self, config: &MachineConfig) -> Result<(), RunnerError> {
        self.start_machine(config).await.map_err(|error| failed("start", &config.name, error))
    }

    async fn stop(&self, name: &MachineKey, _how: PowerDown) -> Result<(), RunnerError> {
        self.stop_machine(name).await.map_err(|error| failed("stop", name, error))
    }

    async fn switch_disk(&self, name: &MachineKey, disk: &Path) -> Result<(), RunnerError> {
        let (monitor, disk) = (qemu::monitor(&self.machine_folder(name.as_str())), disk.to_owned());
        let switched = tokio::task::spawn_blocking(move || switch_disk(&monitor, ROOT_DRIVE, &disk)).await;
        let switched = switched.map_err(|error| SandboxError::spawn("the monitor's client")(error.into()));
        switched.and_then(|done| Ok(done?)).map_err(|error| failed("switch the disk of", name, error))
    }

    async fn is_running(&self, name: &MachineKey) -> Result<bool, RunnerError> {
        is_locked(&self.lock(name)).map_err(|error| failed("read the state of", name, error))
    }
}

fn failed(act: &'static str, machine: &MachineKey, error: SandboxError) -> RunnerError {
    RunnerError { act, machine: machine.clone(), source: Box::new(error) }
}

impl Sandbox {
    fn lock(&self, name: &MachineKey) -> PathBuf {
        self.machine_folder(name.as_str()).join("lock")
    }

    async fn start_machine(&self, config: &MachineConfig) -> Result<(), SandboxError> {
        let lock = self.lock(&config.name);
        if !is_locked(&lock)? {
            let folder = self.machine_folder(config.name.as_str());
            fs::create_dir_all(&folder).map_err(SandboxError::file(&folder))?;
            remove_leftovers(&folder)?;
            let mut command = match &config.disk {
                DiskPath::Folders { lower, upper, work } => {
                    let overlay = Overlay { lower: lower.clone(), upper: upper.clone(), work: work.clone() };
                    self.nspawn(config, &folder, &overlay)?
                }
                DiskPath::Qcow2(disk) => self.qemu(config, &folder, disk)?,
            };
            // The machine inherits the lock, so from here on it counts as running even if this process is killed.
            command.stdin(take_lock(&lock).await?);
            run_detached(command)?;
        }
        self.wait_started(&config.name).await
    }

    /// The command that starts a container in a new session.
    fn nspawn(&self, config: &MachineConfig, folder: &Path, overlay: &Overlay) -> Result<Command, SandboxError> {
        let tools = self.record.tools.nspawn.as_deref();
        tools::require(tools, &[nspawn::NEEDED])?;
        let mounts = platform::prepare(folder, config)?;
        let mut command = self.detached(config, folder)?;
        command
            .args(["sh", "-c", START_NSPAWN, "nspawn"])
            .args(nspawn::boot_words(tools, &self.record.group, &config.computer_name))
            .args(mounts)
            // kubelet and containerd need the capabilities of a machine's root, and read the kernel log.
            .args(["--capability=all", DROPPED])
            .args(["--bind=/dev/kmsg", "--system-call-filter=@keyring bpf", "--resolv-conf=off"])
            // A machine learns its name from its platform.
            .arg("--hostname=localhost")
            .env("LAYERS", overlay.options(self.state()))
            .env("BASE", self.state());
        Ok(command)
    }

    /// A command that runs its arguments in a new session, with the console in a file and the machine's network in variables.
    pub(super) fn detached(&self, config: &MachineConfig, folder: &Path) -> Result<Command, SandboxError> {
        let console = self.console(config.name.as_str());
        let consoles = console.parent().unwrap_or(&console);
        fs::create_dir_all(consoles).map_err(SandboxError::file(consoles))?;
        let output = private_file(&console).map_err(SandboxError::file(&console))?;
        let errors = output.try_clone().map_err(SandboxError::file(&console))?;
        let mut command = Command::new("setsid");
        command
            .arg("--fork")
            .current_dir("/")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()))
            .env("FOLDER", folder)
            .env("ADDRESS", format!("{}/{PREFIX}", address::address(config.number)?))
            .env("GATEWAY", GATEWAY.to_string())
            .env("BRIDGE", BRIDGE)
            .env("PORT", port(config))
            .env("MAC", address::hardware_address(config.number))
            .stdout(output)
            .stderr(errors);
        Ok(command)
    }

    /// Waits until the machine has a first process. A machine that was already running is waited for too, because the process that started
    /// it may have been killed half-way.
    async fn wait_started(&self, name: &MachineKey) -> Result<(), SandboxError> {
        for _ in 0..START_LIMIT {
            if self.leader(name).is_some() {
                return Ok(());
            }
            if !is_locked(&self.lock(name))? {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        let console = fs::read(self.console(name.as_str())).unwrap_or_default();
        Err(SandboxError::NotStarted { console: tail(&String::from_utf8_lossy(&console), 12) })
    }

    async fn stop_machine(&self, name: &MachineKey) -> Result<(), SandboxError> {
        let lock = self.lock(name);
        // The process id that a stopped machine left may belong to another process by now.
        if !is_locked(&lock)? {
            return Ok(());
        }
        let folder = self.machine_folder(name.as_str());
        if qemu::monitor(&folder).exists() {
            // A system that is still starting ignores the button.
            for _ in 0..SHUTDOWN_LIMIT / PRESS_INTERVAL {
                press_power_button(&qemu::monitor(&folder));
                if wait_unlocked(&lock, PRESS_INTERVAL).await? {
                    return Ok(());
                }
            }
        } else if self.wait_for_manager(name).await?
            && let Some(runner) = self.runner(name)
        {
            // systemd-nspawn forwards this as a request to shut down, which a service manager that is still starting would miss.
            signal(runner, Signal::TERM);
            if wait_unlocked(&lock, SHUTDOWN_LIMIT).await? {
                return Ok(());
            }
        }
        if is_locked(&lock)? {
            let pid = self.pid(name);
            // The outermost processes hold the lock; their descendants, which the kernel kills with them, may still write to the disk.
            let all: Vec<u32> = pid.into_iter().flat_map(family).collect();
            if let Some(pid) = pid {
                signal(pid, Signal::KILL);
            }
            if !wait_unlocked(&lock, KILL_LIMIT).await? || !wait_ended(&all, KILL_LIMIT).await {
                return Err(SandboxError::StillRunning { seconds: u64::from(KILL_LIMIT) * 25 / 1000 });
            }
        }
        Ok(())
    }

    /// Waits until the machine's service manager accepts requests. Returns whether it does.
    async fn wait_for_manager(&self, name: &MachineKey) -> Result<bool, SandboxError> {
        for _ in 0..MANAGER_LIMIT {
            if self.leader(name).is_some_and(nspawn::is_manager_up) {
                return Ok(true);
            }
            if !is_locked(&self.lock(name))? {
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        Ok(false)
    }

    /// The outermost process of the machine.
    fn pid(&self, name: &MachineKey) -> Option<u32> {
        fs::read_to_string(self.machine_folder(name.as_str()).join("pid")).ok()?.trim().parse().ok()
    }

    /// The process of systemd-nspawn or QEMU.
    fn runner(&self, name: &MachineKey) -> Option<u32> {
        let inside = children(self.pid(name)?).into_iter().next()?;
        children(inside).into_iter().next()
    }

    /// The first process of the machine's system, by this process's number for it; QEMU itself for a virtual machine.
    pub fn leader(&self, machine: &MachineKey) -> Option<u32> {
        if !is_locked(&self.lock(machine)).unwrap_or(false) {
            return None;
        }
        let runner = self.runner(machine)?;
        if qemu::monitor(&self.machine_folder(machine.as_str())).exists() {
            return Some(runner);
        }
        nspawn::leader(runner)
    }
}

/// Removes the process id and the monitor of an earlier start, which may have been killed. The new machine of this name may be of another
/// kind.
fn remove_leftovers(folder: &Path) -> Result<(), SandboxError> {
    for path in [folder.join("pid"), qemu::monitor(folder)] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(SandboxError::File { path, source: error });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes the lock of a stopped machine. A process that tests the lock holds it for a moment.
async fn take_lock(path: &Path) -> Result<File, SandboxError> {
    let lock = File::create(path).map_err(SandboxError::file(path))?;
    let mut attempts = 0;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if attempts < LOCK_LIMIT => attempts += 1,
            Err(error) => return Err(SandboxError::File { path: path.to_owned(), source: error.into() }),
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Runs a command of [`Sandbox::detached`] and drops it, so that only the machine has the lock open.
fn run_detached(mut command: Command) -> Result<(), SandboxError> {
    let line = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    drop(command);
    let status = status.map_err(SandboxError::spawn(&line))?;
    if status.success() {
        return Ok(());
    }
    Err(kiln_machines::Error::Failed { line, status: status.to_string(), output: String::new() }.into())
}

async fn wait_unlocked(lock: &Path, ticks: u32) -> Result<bool, SandboxError> {
    for _ in 0..ticks {
        if !is_locked(lock)? {
            return Ok(true);
        }
        tokio::time::sleep(TICK).await;
    }
    Ok(false)
}

async fn wait_ended(processes: &[u32], ticks: u32) -> bool {
    for _ in 0..ticks {
        if !processes.iter().any(|id| is_running(*id)) {
            return true;
        }
        tokio::time::sleep(TICK).await;
    }
    false
}

#[cfg(test)]
mod tests;
