//! Named control planes that run until they are stopped: `cargo xtask kube up|down`.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::clock::poll;
use crate::folder::{PlanesFolder, processes, remove_unused};
use crate::supervisor::read_pids;
use crate::{ControlPlane, Error, Options};

/// How long servers may take to end after the lock is released.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The named control planes below a folder.
#[derive(Debug)]
pub struct NamedPlanes {
    root: PlanesFolder,
}

impl NamedPlanes {
    /// The control planes below this folder.
    pub fn at(root: &Path) -> Result<Self, Error> {
        PlanesFolder::at(root).map(|root| Self { root })
    }

    /// The control planes of the user: below `$XDG_STATE_HOME/kiln/kube`, or `$HOME/.local/state/kiln/kube`.
    pub fn of_user() -> Result<Self, Error> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
        Self::at(&base.ok_or(test_deps::NoCache)?.join("kiln/kube"))
    }

    /// Starts a control plane if it does not run, and returns its kubeconfig.
    pub fn up(&self, name: &str, options: &Options) -> Result<PathBuf, Error> {
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 40 || name.starts_with('-') || !name.chars().all(is_valid) {
            return Err(Error::Name(name.to_owned()));
        }
        let folder = self.root.path().join(name);
        if folder.exists() {
            if let Some(plane) = ControlPlane::join(&folder)? {
                let kubeconfig = plane.kubeconfig().to_owned();
                plane.leave();
                return Ok(kubeconfig);
            }
            // The last user has just gone; its supervisors are cleaning up.
            wait_until_gone(&folder)?;
        }
        let options = options.clone().in_root(self.root.path());
        let plane = ControlPlane::start_named(name, &options, None)?;
        hold(&folder)?;
        let kubeconfig = plane.kubeconfig().to_owned();
        plane.leave();
        Ok(kubeconfig)
    }

    /// Stops a control plane, even if some of its processes were killed before.
    pub fn down(&self, name: &str) -> Result<(), Error> {
        let folder = self.root.path().join(name);
        if !self.names()?.iter().any(|known| known == name) {
            return Err(Error::Unknown { name: name.to_owned(), known: self.names()?.join(", ") });
        }
        let supervisors = processes(&folder);
        for holder in read_pids(&folder.join("holder")).into_iter().filter(|process| process.is_of(&folder)) {
            holder.kill();
        }
        wait_until_gone(&folder)?;
        // The supervisor that removes the folder ends a moment later.
        poll(Duration::from_millis(5), STOP_TIMEOUT, || {
            Ok(supervisors.iter().all(|supervisor| !supervisor.is_of(&folder)).then_some(()))
        })?;
        Ok(())
    }

    /// The names of all control planes, including remains of killed ones.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let names = self.root.folders()?.into_iter();
        Ok(names.filter_map(|folder| folder.file_name().map(|name| name.to_string_lossy().into_owned())).collect())
    }
}

/// Waits for the supervisors, and does their work if they were killed too.
fn wait_until_gone(folder: &Path) -> Result<(), Error> {
    let gone = poll(Duration::from_millis(50), STOP_TIMEOUT, || {
        if !folder.exists() {
            return Ok(Some(()));
        }
        match remove_unused(folder) {
            // A supervisor is removing the folder right now.
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            removed => Ok(removed?.then_some(())),
        }
    })?;
    gone.ok_or_else(|| {
        let ids: Vec<String> = processes(folder).iter().map(|process| process.id().to_string()).collect();
        Error::StillRunning { folder: folder.to_owned(), processes: ids.join(", ") }
    })
}

/// Starts a process that holds the control plane's lock. It runs `tail` on the lock file, so that its command line contains the path.
fn hold(folder: &Path) -> Result<(), Error> {
    let lock = folder.join("users.lock");
    let failed = |source| Error::Command { line: "flock".to_owned(), source };
    let child = Command::new("flock")
        .args(["--shared", "--no-fork"])
        .arg(&lock)
        .args(["tail", "--follow"])
        .arg(&lock)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let path = folder.join("holder");
    fs::write(&path, child.id().to_string()).map_err(Error::file(&path))?;
    // Our own share is released only after the process has its share.
    let held = poll(Duration::from_millis(5), STOP_TIMEOUT, || {
        let line = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
        Ok(line.starts_with(b"tail\0").then_some(()))
    })?;
    held.ok_or_else(|| failed(std::io::Error::other("it did not acquire the lock")))
}
