//! A machine that boots.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::keeper::Keeper;
use super::processes::{children, family, name, numbers, runs};
use crate::{Finished, Network, run};

/// How long one command in a machine may take, and how long a test waits for something to become true there. A boot takes a second; on
/// a machine that compiles on every core it has taken twenty.
const DEADLINE: Duration = Duration::from_mins(1);

/// How often in a row systemd-nspawn must be missing to count as ended: a process that is just being made is easily overlooked.
const MISSES: u32 = 20;

/// How often is looked.
const TICK: Duration = Duration::from_millis(50);

/// A machine: a disk, a network, and while it runs a real systemd with all that it started. It is gone when it is dropped.
#[derive(Debug)]
pub struct Machine {
    keeper: Keeper,
    network: Network,
    running: bool,
    /// Its first process, once it was seen. Looking for it again could fail: the kernel's lists of children have holes while children end.
    leader: OnceLock<u32>,
}

impl Machine {
    pub(super) fn of(keeper: Keeper, network: Network) -> Self {
        Self { keeper, network, running: false, leader: OnceLock::new() }
    }

    /// Its name, which no other machine has.
    pub fn name(&self) -> &str {
        &self.keeper.name
    }

    /// Its network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Starts it, and waits until its service manager can be asked.
    #[track_caller]
    pub fn boot(&mut self) {
        assert!(!self.running, "{} runs already", self.name());
        self.keeper.tell("boot");
        self.keeper.expect("booting");
        self.running = true;
        let missed = Cell::new(0);
        self.wait_until("its service manager answers", |machine| {
            let ended = !children(machine.keeper.inside()).into_iter().any(runs);
            missed.set(if ended { missed.get() + 1 } else { 0 });
            assert!(missed.get() < MISSES, "{} did not boot\n{}", machine.name(), machine.console());
            let leader = machine.leader()?;
            Path::new(&format!("/proc/{leader}/root/run/systemd/private")).exists().then_some(())
        });
    }

    /// Waits until it has booted: no job waits any more. Says how systemd calls that state: `running`, or `degraded` when a unit failed.
    #[track_caller]
    pub fn settled(&self) -> String {
        self.run(&["systemctl", "is-system-running", "--wait"]).stdout.trim().to_owned()
    }

    /// Runs a command in it. Whether it failed is for the caller to judge.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Finished {
        run(self.command(words), DEADLINE)
    }

    /// Runs lines of shell in it, which must succeed.
    #[track_caller]
    pub fn shell(&self, lines: &str) -> Finished {
        self.run(&["sh", "-euc", lines]).success()
    }

    /// A command that runs in it. Of a machine that is off it sees the disk alone.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command;
        if self.running {
            let leader =
                self.leader().unwrap_or_else(|| panic!("{} has no first process\n{}", self.name(), self.console()));
            command = Command::new("nsenter");
            command.args([
                "--target",
                &leader.to_string(),
                "--mount",
                "--uts",
                "--ipc",
                "--net",
                "--pid",
                "--cgroup",
                "--",
            ]);
        } else {
            command = Command::new("chroot");
            command.arg(self.keeper.path("/run/tree"));
        }
        command.args(words).current_dir("/").env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command
    }

    /// What is in a file; none when there is none.
    #[track_caller]
    pub fn read(&self, path: &str) -> Option<String> {
        let finished = self.run(&["cat", path]);
        (finished.code == Some(0)).then_some(finished.stdout)
    }

    /// Whether there is something at a path.
    #[track_caller]
    pub fn exists(&self, path: &str) -> bool {
        self.run(&["test", "-e", path]).code == Some(0)
    }

    /// Writes a file, and the folders above it.
    #[track_caller]
    pub fn write(&self, path: &str, content: &[u8], mode: u32) {
        let host = self.path(path);
        let folder = host.parent().expect("an absolute path");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&host, content))
            .and_then(|()| fs::set_permissions(&host, fs::Permissions::from_mode(mode)))
            .unwrap_or_else(|error| panic!("{path} of {}: {error}", self.name()));
    }

    /// Writes a file of `/hardware`, which is what the machine sees of its host: it changes nothing there, and a copy of its disk comes
    /// without it.
    #[track_caller]
    pub fn hardware(&self, path: &str, content: impl AsRef<[u8]>) {
        let host = self.keeper.path("/run/hardware").join(path);
        fs::create_dir_all(host.parent().expect("it is below a folder"))
            .and_then(|()| fs::write(&host, content))
            .unwrap_or_else(|error| panic!("{path} of the hardware of {}: {error}", self.name()));
    }

    /// Takes a file of `/hardware` away, or a folder.
    #[track_caller]
    pub fn detach(&self, path: &str) {
        let host = self.keeper.path("/run/hardware").join(path);
        let removed = if host.is_dir() { fs::remove_dir_all(&host) } else { fs::remove_file(&host) };
        removed.unwrap_or_else(|error| panic!("{path} of the hardware of {}: {error}", self.name()));
    }

    /// Makes a symbolic link, and the folders above it.
    #[track_caller]
    pub fn link(&self, path: &str, target: &str) {
        let host = self.path(path);
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

    /// What systemd-nspawn and the machine's console said.
    pub fn console(&self) -> String {
        fs::read_to_string(self.keeper.path("/run/console")).unwrap_or_default()
    }

    /// Waits until something is there to be had; fails with the journal when it does not come.
    #[track_caller]
    pub fn wait_until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if waited >= DEADLINE {
                let journal = self.leader().map(|_| self.journal(None)).unwrap_or_default();
                panic!("{} waited in vain until {what}\n{}\n{journal}", self.name(), self.console());
            }
            thread::sleep(TICK);
            waited += TICK;
        }
    }

    /// Waits until a unit is in a state: `active`, `failed`, `inactive`.
    #[track_caller]
    pub fn wait_for(&self, unit: &str, state: &str) {
        let reached = |machine: &Self| (machine.property(unit, "ActiveState") == state).then_some(());
        self.wait_until(&format!("{unit} is {state}"), reached);
    }

    /// Restarts it in good order.
    #[track_caller]
    pub fn reboot(&mut self) {
        self.shell("systemctl --no-block reboot");
        self.ended();
        self.boot();
    }

    /// Switches it off in good order.
    #[track_caller]
    pub fn power_off(&mut self) {
        self.shell("systemctl --no-block poweroff");
        self.ended();
    }

    /// Takes its power away: every process ends at once. What they had written is on the disk, as the host's kernel lives on.
    #[track_caller]
    pub fn cut_power(&mut self) {
        let leader = self.leader().and_then(|leader| Pid::from_raw(leader.cast_signed()));
        let leader = leader.unwrap_or_else(|| panic!("{} has no first process", self.name()));
        // One that is gone already is as good as killed.
        let _ = kill_process(leader, Signal::KILL);
        self.ended();
    }

    #[track_caller]
    fn ended(&mut self) {
        self.keeper.tell("wait");
        self.keeper.expect("ended");
        self.running = false;
        self.leader = OnceLock::new();
    }

    /// The number that our own process namespace has for the machine's first process.
    pub fn leader(&self) -> Option<u32> {
        if !self.running {
            return None;
        }
        if let Some(leader) = self.leader.get() {
            return Some(*leader);
        }
        let nspawn = children(self.keeper.inside());
        let mut all = nspawn.into_iter().flat_map(family);
        let leader = all.find(|id| matches!(numbers(*id)[..], [_, _, 1]) && name(*id) == "systemd")?;
        Some(*self.leader.get_or_init(|| leader))
    }

    /// The disk's own layer.
    pub(super) fn disk(&self) -> PathBuf {
        self.keeper.path("/run/disk")
    }

    /// Makes its disk: a new one, or a copy of another machine's.
    #[track_caller]
    pub(super) fn make_disk(&mut self, donor: Option<&Path>) {
        if let Some(donor) = donor {
            let mut copy = Command::new("cp");
            // With extended attributes: in them an overlay keeps what was removed.
            copy.arg("--archive").arg(donor.join(".")).arg(self.disk());
            let _ = run(copy, DEADLINE).success();
        }
        self.keeper.tell("mount");
        self.keeper.expect("mounted");
    }

    /// Makes the folder behind a scratch folder of the blueprint.
    #[track_caller]
    pub(super) fn make_scratch(&self, number: usize) {
        let path = self.keeper.path(&format!("/run/binds/{number}"));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn path(&self, path: &str) -> PathBuf {
        match self.leader() {
            Some(leader) => PathBuf::from(format!("/proc/{leader}/root{path}")),
            None => self.keeper.path(&format!("/run/tree{path}")),
        }
    }
}
