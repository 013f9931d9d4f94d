//! Machines by systemd-nspawn: a root folder with its own systemd, on the kernel of the host.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::Signal;

use crate::namespaces::{Namespaces, enter, group_name};
use crate::network::NetworkNamespace;
use crate::processes::{self, family, name, numbers};
use crate::tools::program;
use crate::{Error, Overlay, command};

const JOIN: &str = concat!(include_str!("groups.sh"), include_str!("nspawn/join.sh"));
const HOLD: &str = include_str!("nspawn/hold.sh");

/// The package of Debian and Ubuntu with `systemd-nspawn`.
pub const NEEDED: crate::tools::Needed = ("systemd-nspawn", "systemd-container");

/// The folder that is booted, as systemd-nspawn sees it.
const TREE: &str = "/run/tree";

/// The program and arguments that boot `/run/tree`, in the control group `name` below `group`. `tools` is the root folder that has
/// systemd-nspawn, if it is not this system's own.
pub fn boot_words(tools: Option<&Path>, group: &str, name: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", JOIN, "join", group, name].map(OsString::from).to_vec();
    words.extend(program(tools, NEEDED.0));
    // The host's first process may not be systemd. Without it there is no machine registry, and systemd-nspawn stays in its control group.
    words.extend(["--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"].map(OsString::from));
    words.extend([format!("--directory={TREE}").into(), format!("--machine={name}").into()]);
    words
}

/// The first process of a machine, by this process's number for it, given the process that runs systemd-nspawn or one above it.
///
/// The machine's systemd is two process namespaces below this process: systemd-nspawn runs in the first and creates the second.
pub fn leader(runner: u32) -> Option<u32> {
    let depth = numbers(std::process::id()).len() + 2;
    let is_leader = |id: &u32| {
        let all = numbers(*id);
        all.len() == depth && all.last() == Some(&1) && name(*id) == "systemd"
    };
    family(runner).into_iter().find(is_leader)
}

/// Whether the service manager of a machine accepts requests.
pub fn is_manager_up(leader: u32) -> bool {
    Path::new(&format!("/proc/{leader}/root/run/systemd/private")).exists()
}

/// A machine with a disk in memory, in namespaces of its own. It is removed when it is dropped, and when this process is killed.
#[derive(Debug)]
pub struct Machine {
    name: String,
    words: Vec<OsString>,
    namespaces: Namespaces,
    process: Option<Child>,
    /// The first process, once it was found. The kernel's lists of children have holes while children end, so a second search could fail.
    leader: OnceLock<u32>,
}

impl Machine {
    /// Creates a machine that is off. `name` must be unique in this process. The disk starts as a copy of `root`, with the changes in
    /// `disk` if it is given, which is the [`disk`](Self::disk) of another machine. `arguments` are further arguments of systemd-nspawn, which comes from `root` too.
    pub fn create(name: &str, root: &Path, disk: Option<&Path>, arguments: &[String]) -> Result<Self, Error> {
        Self::create_layered(name, &[root], disk, arguments)
    }

    /// The same with several root folders laid over each other, lowest first. systemd-nspawn comes from the first.
    pub fn create_layered(
        name: &str,
        roots: &[&Path],
        disk: Option<&Path>,
        arguments: &[String],
    ) -> Result<Self, Error> {
        let name = group_name(name);
        let group = format!("kiln-{name}");
        let run = |folder: &str| Path::new("/run").join(folder);
        let overlay = Overlay {
            lower: roots.iter().map(|root| root.to_path_buf()).collect(),
            upper: run("disk"),
            work: run("work"),
        };
        let options = overlay.options(Path::new(""));
        let namespaces =
            Namespaces::create(&group, HOLD, &[disk.unwrap_or(Path::new("")).as_os_str(), OsStr::new(&options)])?;
        let mut words = boot_words(roots.first().copied(), &group, &name);
        words.push("--bind-ro=/run/hardware:/hardware".into());
        words.extend(arguments.iter().map(OsString::from));
        Ok(Self { name, words, namespaces, process: None, leader: OnceLock::new() })
    }

    /// The name with the process id, which no other machine of the host has.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The network, which stays over restarts.
    pub fn network(&self) -> NetworkNamespace {
        self.namespaces.network()
    }

    /// Starts the machine; returns before it has booted.
    pub fn start(&mut self) -> Result<(), Error> {
        let console = self.console_path();
        let output = OpenOptions::new().create(true).append(true).open(&console).map_err(Error::file(&console))?;
        let errors = output.try_clone().map_err(Error::file(&console))?;
        let mut command = self.namespaces.command();
        command.args(&self.words).stdin(std::process::Stdio::null()).stdout(output).stderr(errors);
        self.process = Some(command.spawn().map_err(Error::spawn("nsenter"))?);
        Ok(())
    }

    /// Whether the machine was started and has not been waited for.
    pub fn is_on(&self) -> bool {
        self.process.is_some()
    }

    /// Waits until the machine has ended. Returns whether it has.
    pub fn wait(&mut self, deadline: Duration) -> Result<bool, Error> {
        if let Some(process) = &mut self.process
            && command::wait(process, deadline).map_err(Error::spawn("nsenter"))?.is_none()
        {
            return Ok(false);
        }
        self.process = None;
        self.leader = OnceLock::new();
        Ok(true)
    }

    /// Kills every process of the machine. What they have written is on the disk, because the kernel is the host's.
    pub fn kill(&self) {
        if let Some(leader) = self.leader() {
            processes::signal(leader, Signal::KILL);
        }
    }

    /// The first process of the machine, by this process's number for it.
    pub fn leader(&self) -> Option<u32> {
        let process = self.process.as_ref()?;
        if let Some(leader) = self.leader.get() {
            return Some(*leader);
        }
        let found = leader(process.id())?;
        Some(*self.leader.get_or_init(|| found))
    }

    /// A command that runs its arguments in the machine. In a machine that is off it sees only the disk; `None` in one that is starting.
    pub fn command(&self) -> Option<Command> {
        if self.is_on() {
            return Some(enter(self.leader()?, &["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]));
        }
        let mut command = Command::new("chroot");
        command.arg(self.namespaces.path(TREE));
        Some(command)
    }

    /// A path of the machine, as this process sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        match self.leader() {
            Some(leader) => PathBuf::from(format!("/proc/{leader}/root{path}")),
            None => self.namespaces.path(&format!("{TREE}{path}")),
        }
    }

    /// A path of the namespaces that systemd-nspawn runs in: `/run/hardware` is `/hardware` in the machine, and `/run/binds` is free for
    /// `--bind`.
    pub fn host_path(&self, path: &str) -> PathBuf {
        self.namespaces.path(path)
    }

    /// The folder with the changes to the root folder, for a copy of the disk. The machine may be running.
    pub fn disk(&self) -> PathBuf {
        self.namespaces.path("/run/disk")
    }

    /// The output of systemd-nspawn and of the machine's console, of all boots.
    pub fn console(&self) -> String {
        fs::read_to_string(self.console_path()).unwrap_or_default()
    }

    fn console_path(&self) -> PathBuf {
        self.namespaces.path("/run/console")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.namespaces.close();
        if let Some(process) = &mut self.process {
            let _ = process.wait();
        }
    }
}
