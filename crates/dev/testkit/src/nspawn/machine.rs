//! A machine with the assertions that tests need. Every method fails the test with the machine's console or journal.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kiln_machines::nspawn;
use kiln_machines::tools::DEFAULT_PATH;

use crate::network::CLOUD;
use crate::{Finished, Network, run};

/// The limit of a boot and of one command in a machine. A boot takes a second; on a host that compiles on every core it has taken twenty.
const DEADLINE: Duration = Duration::from_mins(1);

/// The limit of waiting for a condition. On such a host, a node with a real kubelet has taken a minute to become ready.
const CONDITION_DEADLINE: Duration = Duration::from_mins(2);

/// Poll interval while waiting.
const TICK: Duration = Duration::from_millis(50);

/// A machine: a disk, a network, and while it is on a real systemd with everything that it started. It is removed when it is dropped.
#[derive(Debug)]
pub struct Machine {
    machine: nspawn::Machine,
    network: Network,
}

impl Machine {
    #[track_caller]
    pub(super) fn new(machine: nspawn::Machine) -> Self {
        let network = Network::new(machine.network());
        network.set_up_loopback(&CLOUD.map(Ipv4Addr::from));
        Self { machine, network }
    }

    /// The folder with the changes to the root folder, as this process sees it: every file that the machine or the test wrote.
    pub fn disk(&self) -> PathBuf {
        self.machine.disk()
    }

    /// A path of the machine, as this process sees it. In a machine that is off there are no mounts in it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.machine.path(path)
    }

    /// The name, which no other machine has.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// The private network, which stays over restarts.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Starts the machine and waits until its service manager accepts requests.
    #[track_caller]
    pub fn boot(&mut self) {
        assert!(!self.machine.is_on(), "{} is already running", self.name());
        self.machine.start().unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        let started = now();
        while !self.machine.leader().is_some_and(nspawn::is_manager_up) {
            let ended = self.machine.wait(Duration::ZERO).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
            assert!(!ended && started.elapsed() < DEADLINE, "{} did not boot\n{}", self.name(), self.console());
            thread::sleep(TICK);
        }
    }

    /// Waits until no job is left of the boot. Returns systemd's name of the state: `running`, or `degraded` when a unit failed.
    #[track_caller]
    pub fn settled(&self) -> String {
        self.run(&["systemctl", "is-system-running", "--wait"]).stdout.trim().to_owned()
    }

    /// Runs a command in the machine. The caller checks whether it failed.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Finished {
        run(self.command(words), DEADLINE)
    }

    /// Runs a shell script in the machine, which must succeed.
    #[track_caller]
    pub fn shell(&self, lines: &str) -> Finished {
        self.run(&["sh", "-euc", lines]).success()
    }

    /// A command that runs in the machine. In a machine that is off it sees only the disk.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Command {
        let command = self.machine.command();
        let mut command = command.unwrap_or_else(|| panic!("{} has no first process\n{}", self.name(), self.console()));
        command.args(words).current_dir("/").env_clear();
        command.env("PATH", DEFAULT_PATH).env("LC_ALL", "C.UTF-8");
        command
    }

    /// The content of a file; `None` if it does not exist.
    #[track_caller]
    pub fn read(&self, path: &str) -> Option<String> {
        let finished = self.run(&["cat", path]);
        (finished.code == Some(0)).then_some(finished.stdout)
    }

    /// Whether a path exists.
    #[track_caller]
    pub fn exists(&self, path: &str) -> bool {
        self.run(&["test", "-e", path]).code == Some(0)
    }

    /// Writes a file, and creates the folders above it.
    #[track_caller]
    pub fn write(&self, path: &str, content: &[u8], mode: u32) {
        let host = self.machine.path(path);
        write(&host, content)
            .and_then(|()| fs::set_permissions(&host, fs::Permissions::from_mode(mode)))
            .unwrap_or_else(|error| panic!("{path} of {}: {error}", self.name()));
    }

    /// Writes a file of `/hardware`, the machine's read-only view of its host. A copy of its disk does not contain it.
    #[track_caller]
    pub fn hardware(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.machine.host_path("/run/hardware").join(path), content.as_ref())
            .unwrap_or_else(|error| panic!("{path} of the hardware of {}: {error}", self.name()));
    }

    /// Removes a file or folder of `/hardware`.
    #[track_caller]
    pub fn detach(&self, path: &str) {
        let host = self.machine.host_path("/run/hardware").join(path);
        let removed = if host.is_dir() { fs::remove_dir_all(&host) } else { fs::remove_file(&host) };
        removed.unwrap_or_else(|error| panic!("{path} of the hardware of {}: {error}", self.name()));
    }

    /// Creates a symbolic link, and the folders above it.
    #[track_caller]
    pub fn link(&self, path: &str, target: &str) {
        let host = self.machine.path(path);
        let folder = host.parent().expect("an absolute path");
        // A copied disk may have it already.
        let _ = fs::remove_file(&host);
        fs::create_dir_all(folder)
            .and_then(|()| symlink(target, &host))
            .unwrap_or_else(|error| panic!("{path} of {}: {error}", self.name()));
    }

    /// A property of a unit, as `systemctl show` prints it.
    #[track_caller]
    pub fn property(&self, unit: &str, property: &str) -> String {
        let words = ["systemctl", "show", "--value", "--property", property, unit];
        self.run(&words).success().stdout.trim().to_owned()
    }

    /// The journal of this boot, or of one unit in it.
    #[track_caller]
    pub fn journal(&self, unit: Option<&str>) -> String {
        let mut words = vec!["journalctl", "--boot", "--no-pager", "--output=short-monotonic"];
        words.extend(unit.iter().flat_map(|unit| ["--unit", unit]));
        self.run(&words).stdout
    }

    /// The output of systemd-nspawn and the machine's console.
    pub fn console(&self) -> String {
        self.machine.console()
    }

    /// Waits until `look` returns a value; fails with the journal when it does not in time.
    #[track_caller]
    pub fn wait_until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        // `look` may run a program: counting the pauses alone would wait for many times the limit.
        let started = now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if started.elapsed() >= CONDITION_DEADLINE {
                let journal = self.leader().map(|_| self.journal(None)).unwrap_or_default();
                let (name, seconds) = (self.name(), CONDITION_DEADLINE.as_secs());
                panic!("{name}: timed out after {seconds} s waiting until {what}\n{}\n{journal}", self.console());
            }
            thread::sleep(TICK);
        }
    }

    /// Waits until a unit is in a state: `active`, `failed`, `inactive`.
    #[track_caller]
    pub fn wait_for(&self, unit: &str, state: &str) {
        let reached = |machine: &Self| (machine.property(unit, "ActiveState") == state).then_some(());
        self.wait_until(&format!("{unit} is {state}"), reached);
    }

    /// Shuts the machine down and starts it again.
    #[track_caller]
    pub fn reboot(&mut self) {
        self.shell("systemctl --no-block reboot");
        self.wait_ended();
        self.boot();
    }

    /// Waits until the machine reboots by itself, and starts it again.
    #[track_caller]
    pub fn wait_rebooted(&mut self) {
        self.wait_ended();
        self.boot();
    }

    /// Whether no process of the machine runs: it has not been started, or it has ended, also by itself.
    #[track_caller]
    pub fn is_off(&mut self) -> bool {
        self.machine.wait(Duration::ZERO).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    /// Shuts the machine down.
    #[track_caller]
    pub fn power_off(&mut self) {
        self.shell("systemctl --no-block poweroff");
        self.wait_ended();
    }

    /// Kills every process at once. What they have written is on the disk, because the kernel is the host's.
    #[track_caller]
    pub fn cut_power(&mut self) {
        assert!(self.leader().is_some(), "{} has no first process", self.name());
        self.machine.kill();
        self.wait_ended();
    }

    #[track_caller]
    fn wait_ended(&mut self) {
        let ended = self.machine.wait(DEADLINE);
        assert!(matches!(ended, Ok(true)), "{} did not end: {ended:?}\n{}", self.name(), self.console());
    }

    /// The first process of the machine, by this process's number for it.
    pub fn leader(&self) -> Option<u32> {
        self.machine.leader()
    }

    /// The folder with the scratch folders of the machine.
    pub(super) fn scratch(&self) -> PathBuf {
        self.machine.host_path("/run/binds")
    }

    /// Creates a folder outside of the machine's disk, for `--bind`, as a copy of a donor's if there is one.
    #[track_caller]
    pub(super) fn create_scratch(&self, number: usize, donor: Option<&Path>) {
        let path = self.scratch().join(number.to_string());
        match donor.filter(|donor| donor.exists()) {
            Some(donor) => {
                let mut copy = Command::new("cp");
                copy.arg("--archive").args([donor, &path]);
                drop(run(copy, DEADLINE).success());
            }
            None => fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the deadline of a test is in real time")]
fn now() -> Instant {
    Instant::now()
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().expect("an absolute path"))?;
    fs::write(path, content)
}
