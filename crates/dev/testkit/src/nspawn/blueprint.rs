//! The description of a machine.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use kiln_machines::nspawn;

use super::Machine;
use crate::{TestDep, require};

/// The description of a machine. Its disk starts as a copy of [`TestDep::NodeRoot`], unless [`Blueprint::root`] names another root.
#[derive(Debug)]
pub struct Blueprint {
    name: String,
    root: TestDep,
    files: Vec<(String, Vec<u8>, u32)>,
    links: Vec<(String, String)>,
    arguments: Vec<String>,
    scratch: Vec<String>,
    pretended: Vec<String>,
    cgroups: bool,
    disk: Option<PathBuf>,
    above: Vec<PathBuf>,
    /// The scratch folders of the donor, in the order of its blueprint.
    donor_scratch: Option<PathBuf>,
}

/// The first unit of a machine: it replaces kernel settings, which are the host's, by files.
const PRETEND: &str = "/etc/systemd/system/testkit-pretend.service";

impl Blueprint {
    /// A machine with this name. Two machines may have the same name; on the host, a number is added.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            root: TestDep::NodeRoot,
            files: Vec::new(),
            links: Vec::new(),
            arguments: Vec::new(),
            scratch: Vec::new(),
            pretended: Vec::new(),
            cgroups: false,
            disk: None,
            above: Vec::new(),
            donor_scratch: None,
        }
    }

    /// Starts with a copy of another root, which has its own systemd-nspawn in `root/usr/bin`.
    #[must_use]
    pub fn root(mut self, root: TestDep) -> Self {
        self.root = root;
        self
    }

    /// Starts with a copy of another machine's disk and of its [scratch](Self::scratch) folders, which are a part of its disk for programs. Both
    /// machines have the same scratch folders. The other machine may be running; what it writes after the copy is not in it.
    #[must_use]
    pub fn disk_of(mut self, donor: &Machine) -> Self {
        self.disk = Some(donor.disk());
        self.donor_scratch = Some(donor.scratch());
        self
    }

    /// Lays another root folder over [`TestDep::NodeRoot`], for programs that it lacks.
    #[must_use]
    pub fn above(mut self, dependency: TestDep) -> Self {
        let program = require(dependency);
        let depth = Path::new(dependency.program()).components().count() - 1;
        self.above.extend(program.ancestors().nth(depth).map(Path::to_owned));
        self
    }

    /// Adds a file to the disk.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o644));
        self
    }

    /// Adds a file that only root may read.
    #[must_use]
    pub fn secret(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o600));
        self
    }

    /// Adds an executable file.
    #[must_use]
    pub fn executable(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.to_owned(), content.into(), 0o755));
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.links.push((path.to_owned(), target.to_owned()));
        self
    }

    /// Enables a unit for a target.
    #[must_use]
    pub fn wanted_by(self, target: &str, unit: &str) -> Self {
        let path = format!("/etc/systemd/system/{target}.wants/{unit}");
        self.link(&path, &format!("/etc/systemd/system/{unit}"))
    }

    /// Mounts a file or folder of the host, read-only.
    #[must_use]
    pub fn shared(mut self, host: &Path, path: &str) -> Self {
        self.arguments.push(format!("--bind-ro={}:{path}", host.display()));
        self
    }

    /// Adds an empty folder that is not on an overlay, for programs that mount overlays themselves. It outlives restarts.
    #[must_use]
    pub fn scratch(mut self, path: &str) -> Self {
        self.scratch.push(path.to_owned());
        self
    }

    /// Replaces files of `/proc/sys` by files that are writable and have no effect, because the kernel is the host's.
    #[must_use]
    pub fn pretend(mut self, paths: &[&str]) -> Self {
        self.pretended.extend(paths.iter().map(|path| (*path).to_owned()));
        self
    }

    /// Makes the control groups of every hierarchy writable, as a container runtime needs.
    #[must_use]
    pub fn cgroups(mut self) -> Self {
        self.cgroups = true;
        self
    }

    /// Adds an argument of systemd-nspawn.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Creates the machine and starts it.
    #[track_caller]
    pub fn boot(self) -> Machine {
        let mut machine = self.build();
        machine.boot();
        machine
    }

    /// Creates the machine without starting it. Its network exists, and its disk can be changed.
    #[track_caller]
    pub fn build(mut self) -> Machine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nspawn = require(self.root);
        let root =
            nspawn.ancestors().nth(3).unwrap_or_else(|| panic!("`{}` is not in a root folder", nspawn.display()));
        for (number, path) in self.scratch.iter().enumerate() {
            self.arguments.push(format!("--bind=/run/binds/{number}:{path}"));
        }
        let name = format!("{}-{}", self.name, COUNT.fetch_add(1, Ordering::Relaxed));
        let roots: Vec<&Path> = std::iter::once(root).chain(self.above.iter().map(PathBuf::as_path)).collect();
        let machine = nspawn::Machine::create_layered(&name, &roots, self.disk.as_deref(), &self.arguments);
        let machine = Machine::new(machine.unwrap_or_else(|error| panic!("{name}: {error}")));
        for number in 0..self.scratch.len() {
            let donor = self.donor_scratch.as_ref().map(|folder| folder.join(number.to_string()));
            machine.create_scratch(number, donor.as_deref());
        }
        if !self.pretended.is_empty() || self.cgroups {
            machine.write(PRETEND, self.pretend_unit().as_bytes(), 0o644);
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

    fn pretend_unit(&self) -> String {
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
