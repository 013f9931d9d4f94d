//! What a machine is made of.

use std::path::{Path, PathBuf};

use super::Machine;
use super::keeper::Keeper;
use crate::{Network, TestDep, require};

/// What a machine is made of. Its disk starts as a copy of [`TestDep::NodeRoot`].
#[derive(Debug)]
pub struct Blueprint {
    name: String,
    files: Vec<(String, Vec<u8>, u32)>,
    links: Vec<(String, String)>,
    arguments: Vec<String>,
    scratch: Vec<String>,
    pretended: Vec<String>,
    cgroups: bool,
    disk: Option<PathBuf>,
}

/// Runs first of all in a machine: puts files of its own in the place of those of the kernel that the host needs.
const PRETEND: &str = "/etc/systemd/system/testkit-pretend.service";

impl Blueprint {
    /// A machine of this name. Names may be alike; what the host sees of a machine has a number too.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            files: Vec::new(),
            links: Vec::new(),
            arguments: Vec::new(),
            scratch: Vec::new(),
            pretended: Vec::new(),
            cgroups: false,
            disk: None,
        }
    }

    /// With a copy of another machine's disk, whether that one runs or not. What was written since the copy is not in it.
    #[must_use]
    pub fn disk_of(mut self, donor: &Machine) -> Self {
        self.disk = Some(donor.disk());
        self
    }

    /// With a file on its disk.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o644));
        self
    }

    /// With a file that only root may read.
    #[must_use]
    pub fn secret(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o600));
        self
    }

    /// With a file that can be executed.
    #[must_use]
    pub fn executable(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o755));
        self
    }

    /// With a symbolic link on its disk.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.to_owned(), target.to_owned()));
        self
    }

    /// With a unit that a target wants.
    #[must_use]
    pub fn wanted_by(self, target: &str, unit: &str) -> Self {
        let path = format!("/etc/systemd/system/{target}.wants/{unit}");
        self.link(&path, &format!("/etc/systemd/system/{unit}"))
    }

    /// With a file or folder of the host, as it is there, read-only.
    #[must_use]
    pub fn shared(mut self, host: &Path, path: &str) -> Self {
        self.arguments.push(format!("--bind-ro={}:{path}", host.display()));
        self
    }

    /// With an empty folder that is no overlay, for programs that make overlays of their own. It outlives restarts.
    #[must_use]
    pub fn scratch(mut self, path: &str) -> Self {
        self.scratch.push(path.to_owned());
        self
    }

    /// With files of its own in the place of these of `/proc/sys`, writable and without any effect: the kernel is the host's.
    #[must_use]
    pub fn pretend(mut self, paths: &[&str]) -> Self {
        self.pretended.extend(paths.iter().map(|path| (*path).to_owned()));
        self
    }

    /// With control groups that it may write to in every hierarchy, as a container runtime needs.
    #[must_use]
    pub fn cgroups(mut self) -> Self {
        self.cgroups = true;
        self
    }

    /// With one more argument of systemd-nspawn.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Makes the machine and starts it.
    #[track_caller]
    pub fn boot(self) -> Machine {
        let mut machine = self.build();
        machine.boot();
        machine
    }

    /// Makes the machine. Its network is there, its disk can be changed, and nothing runs yet.
    #[track_caller]
    pub fn build(mut self) -> Machine {
        let nspawn = require(TestDep::NodeRoot);
        let root = nspawn.ancestors().nth(3).unwrap_or_else(|| panic!("{} is in no root", nspawn.display()));
        for (number, path) in self.scratch.iter().enumerate() {
            self.arguments.push(format!("--bind=/run/binds/{number}:{path}"));
        }
        let keeper = Keeper::start(&self.name, root, &self.arguments);
        let network = Network::of(keeper.inside());
        let mut machine = Machine::of(keeper, network);
        machine.make_disk(self.disk.as_deref());
        for number in 0..self.scratch.len() {
            machine.make_scratch(number);
        }
        if !self.pretended.is_empty() || self.cgroups {
            machine.write(PRETEND, self.pretending().as_bytes(), 0o644);
            machine.link("/etc/systemd/system/sysinit.target.wants/testkit-pretend.service", PRETEND);
        }
        for (path, content, mode) in &self.files {
            machine.write(path, content, *mode);
        }
        for (path, target) in &self.links {
            machine.link(path, target);
        }
        machine
    }

    fn pretending(&self) -> String {
        let mut lines = String::from(
            "[Unit]\nDefaultDependencies=no\nBefore=kiln-identity.service kiln-config.service sysinit.target\n\
             [Service]\nType=oneshot\nRemainAfterExit=yes\n",
        );
        let mut line = |command: &str| lines.extend(["ExecStart=/bin/sh -ec '", command, "'\n"]);
        for path in &self.pretended {
            line(&format!(
                "copy=/run/pretended/$$(echo {path} | tr / _); mkdir -p /run/pretended; cat {path} >$$copy; mount --bind $$copy {path}"
            ));
        }
        if self.cgroups {
            line("for group in /sys/fs/cgroup/*/; do mount -o remount,bind,rw $$group || true; done");
        }
        lines
    }
}
