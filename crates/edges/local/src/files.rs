//! Atomic changes to the state folder. Each change is counted, so that a test can stop the program between any two of them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// A lock. The kernel releases it when its owner ends or is killed.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The files of a folder, by relative path.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    changes: AtomicU64,
    stop_before: AtomicU64,
}

impl Files {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, changes: AtomicU64::new(0), stop_before: AtomicU64::new(u64::MAX) }
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_before(&self, change: Option<u64>) {
        self.stop_before.store(change.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Counts a change, or fails if a test stops the program here. Every later change fails too, as in a killed process.
    pub(crate) fn count_change(&self) -> Result<(), Error> {
        let number = self.changes.load(Ordering::Relaxed);
        if number >= self.stop_before.load(Ordering::Relaxed) {
            return Err(Error::Stopped { number });
        }
        self.changes.store(number + 1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn read(&self, relative: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(relative);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Replaces a file. Only its owner may read it, because some contain custom data.
    pub(crate) fn write(&self, relative: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(relative);
        let new = self.path(format!("{relative}.new"));
        self.count_change()?;
        let written = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_data()
        };
        written().map_err(Error::io("write", &new))?;
        self.count_change()?;
        fs::rename(&new, &path).map_err(Error::io("write", &path))?;
        sync_parent(&path)
    }

    pub(crate) fn remove(&self, relative: &str) -> Result<(), Error> {
        let path = self.path(relative);
        self.count_change()?;
        match fs::remove_file(&path) {
            Ok(()) => sync_parent(&path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io("remove", &path)(error)),
        }
    }

    /// Creates a folder and the folders above it.
    pub(crate) fn folder(&self, relative: &str, mode: u32) -> Result<(), Error> {
        let path = self.path(relative);
        if path.is_dir() {
            return Ok(());
        }
        self.count_change()?;
        let done = DirBuilder::new().recursive(true).mode(mode).create(&path);
        done.map_err(Error::io("create folder", &path))
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let path = self.path(from);
        self.count_change()?;
        fs::rename(&path, self.path(to)).map_err(Error::io("move", &path))
    }

    pub(crate) fn remove_tree(&self, relative: &str) -> Result<(), Error> {
        let path = self.path(relative);
        self.count_change()?;
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path)(error)),
            _ => Ok(()),
        }
    }

    /// The sorted names in a folder; none if it does not exist.
    pub(crate) fn names(&self, relative: &str) -> Result<Vec<String>, Error> {
        let path = self.path(relative);
        let failed = |error| Error::io("list", &path)(error);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Waits for a lock. Its file is never removed: a lock on a removed file has no effect.
    pub(crate) fn lock(&self, relative: &str) -> Result<Lock, Error> {
        let path = self.path(relative);
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.and_then(|file| file.lock().map(|()| file)).map_err(Error::io("lock", &path))?;
        Ok(Lock { _file: file })
    }
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    File::open(parent).and_then(|folder| folder.sync_data()).map_err(Error::io("sync", parent))
}
