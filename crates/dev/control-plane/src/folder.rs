//! Folders of control planes. A folder is created under a lock, kept by a lock, and removed by the next start if its supervisors were
//! killed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ports::Ports;
use crate::supervisor::{self, Process};
use crate::{Error, Options};

/// The description of a control plane in its folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) ports: Ports,
    pub(crate) options: Options,
    /// A second lock file that keeps it running: that of a whole test run.
    pub(crate) session: Option<PathBuf>,
}

impl Record {
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("plane.json");
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        serde_json::from_str(&text).map_err(|error| Error::Damaged { path, problem: error.to_string() })
    }

    fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join("plane.json");
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Damaged { path: path.clone(), problem: error.to_string() })?;
        fs::write(&path, text).map_err(Error::file(&path))
    }
}

/// The parent folder of control planes.
#[derive(Clone, Debug)]
pub(crate) struct PlanesFolder(PathBuf);

impl PlanesFolder {
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::file(path))?;
        // The servers get paths below it and are identified by them, so they must be canonical.
        let path = fs::canonicalize(path).map_err(Error::file(path))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates and locks a control plane's folder. Unused folders are removed first.
    pub(crate) fn create(
        &self,
        name: &str,
        options: &Options,
        session: Option<PathBuf>,
    ) -> Result<LockedFolder, Error> {
        let guard = lock_file(&self.0.join("start.lock"))?;
        guard.lock().map_err(Error::file(&self.0.join("start.lock")))?;
        let mut taken = BTreeSet::new();
        for folder in self.folders()? {
            if !remove_unused(&folder)?
                && let Ok(record) = Record::read(&folder)
            {
                taken.extend(record.ports.all());
            }
        }
        let folder = self.0.join(name);
        fs::create_dir(&folder).map_err(Error::file(&folder))?;
        let users = lock_file(&folder.join("users.lock"))?;
        users.lock_shared().map_err(Error::file(&folder))?;
        let record = Record { ports: Ports::choose(&taken)?, options: options.clone(), session };
        record.write(&folder)?;
        Ok(LockedFolder { folder, record, users })
    }

    /// The folders of all control planes, sorted by name.
    pub(crate) fn folders(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = fs::read_dir(&self.0).map_err(Error::file(&self.0))?;
        let mut folders: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        Ok(folders)
    }
}

/// A control plane's folder, and the lock that keeps it.
#[derive(Debug)]
pub(crate) struct LockedFolder {
    pub(crate) folder: PathBuf,
    pub(crate) record: Record,
    pub(crate) users: File,
}

impl LockedFolder {
    /// Joins a control plane; `None` if it is being stopped.
    pub(crate) fn join(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join("users.lock");
        // Not created: a folder without this file is not a control plane.
        let Ok(users) = OpenOptions::new().append(true).open(&path) else { return Ok(None) };
        match users.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(Error::File { path, source }),
        }
        // The last supervisor may have removed the folder between open and lock.
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(Self { folder: folder.to_owned(), record: Record::read(folder)?, users }))
    }
}

/// Removes an unused folder and kills its remaining processes; returns `false` if it is in use.
pub(crate) fn remove_unused(folder: &Path) -> Result<bool, Error> {
    let mut locks = vec![folder.join("users.lock")];
    locks.extend(Record::read(folder).ok().and_then(|record| record.session));
    let mut locks_held = Vec::new();
    for path in locks {
        let lock = lock_file(&path)?;
        match lock.try_lock() {
            Ok(()) => locks_held.push(lock),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(source)) => return Err(Error::File { path, source }),
        }
    }
    for process in processes(folder) {
        process.kill();
    }
    remove(folder)?;
    Ok(true)
}

/// The processes in the folder's pid files that really belong to it.
pub(crate) fn processes(folder: &Path) -> Vec<Process> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "pid"));
    files.flat_map(|path| supervisor::read_pids(&path)).filter(|process| process.is_of(folder)).collect()
}

/// A supervisor may be removing the same folder, so a missing folder is not an error.
fn remove(folder: &Path) -> Result<(), Error> {
    for _ in 0..20 {
        match fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if !folder.exists() {
                    return Ok(());
                }
            }
            // A server that was just killed may still have written a file.
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            Err(source) => return Err(Error::File { path: folder.to_owned(), source }),
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::remove_dir_all(folder).map_err(Error::file(folder))
}

pub(crate) fn lock_file(path: &Path) -> Result<File, Error> {
    OpenOptions::new().create(true).append(true).open(path).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_removed_after_its_last_user_has_gone() {
        let root = tempfile::tempdir().unwrap();
        let root = PlanesFolder::at(root.path()).unwrap();
        let first = root.create("one", &Options::default(), None).unwrap();
        let second = LockedFolder::join(&first.folder).unwrap().unwrap();
        assert_eq!(second.record.ports, first.record.ports);
        let folder = first.folder.clone();
        drop(first);
        assert!(!remove_unused(&folder).unwrap());
        drop(second);
        assert!(remove_unused(&folder).unwrap());
        assert!(!folder.exists());
        assert!(LockedFolder::join(&folder).unwrap().is_none());
    }

    #[test]
    fn folder_without_users_is_kept_while_its_session_runs() {
        let root = tempfile::tempdir().unwrap();
        let session_file = root.path().join("session.lock");
        let session = lock_file(&session_file).unwrap();
        session.lock_shared().unwrap();
        let root = PlanesFolder::at(&root.path().join("planes")).unwrap();
        let held = root.create("shared", &Options::default(), Some(session_file)).unwrap();
        let folder = held.folder.clone();
        drop(held);
        assert!(!remove_unused(&folder).unwrap());
        drop(session);
        assert!(remove_unused(&folder).unwrap());
    }

    #[test]
    fn control_planes_of_one_root_use_different_ports() {
        let root = tempfile::tempdir().unwrap();
        let root = PlanesFolder::at(root.path()).unwrap();
        let held: Vec<LockedFolder> =
            (0..4).map(|n| root.create(&format!("p{n}"), &Options::default(), None).unwrap()).collect();
        let ports: BTreeSet<u16> = held.iter().flat_map(|held| held.record.ports.all()).collect();
        assert_eq!(ports.len(), 12);
    }
}
