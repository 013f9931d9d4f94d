//! Deletes files, links and folders, never across a mount.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, statat};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::write::Durability;
use crate::os::root::{FileKind, Root, text, tree};

impl Root {
    /// Deletes a file or link. Returns whether it existed.
    pub fn remove(&self, path: impl AsRef<Path>, durability: Durability) -> Result<bool, Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(false) };
        let Some(stat) = stat_of(&parent, name, path)? else { return Ok(false) };
        if FileKind::from_stat(&stat) == FileKind::Folder {
            return Err(Error::Kind { path: text(path), found: FileKind::Folder.name(), wanted: "a file or a link" });
        }
        self.ops.act(Op::Remove, "remove", &text(path), || rustix::fs::unlinkat(&parent, name, AtFlags::empty()))?;
        let folder = path.parent().unwrap_or(path);
        self.sync_folder(&parent, &text(folder), durability)?;
        Ok(true)
    }

    /// Deletes a path with everything below it. Fails before anything is deleted if something is mounted at or below it. Returns whether it
    /// existed. Durable at the next [`Root::sync`].
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> Result<bool, Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(false) };
        let Some(stat) = stat_of(&parent, name, path)? else { return Ok(false) };
        self.refuse_mounts(path)?;
        let device = stat.st_dev;
        self.remove_below(&parent, name, path, &stat, device)?;
        Ok(true)
    }

    /// Deletes the content of a folder and keeps the folder with its owner and mode.
    pub fn clear_folder(&self, path: impl AsRef<Path>) -> Result<bool, Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(false) };
        let Some(stat) = stat_of(&parent, name, path)? else { return Ok(false) };
        if FileKind::from_stat(&stat) != FileKind::Folder {
            return Err(Error::Kind { path: text(path), found: FileKind::from_stat(&stat).name(), wanted: "a folder" });
        }
        self.refuse_mounts(path)?;
        let folder = open_folder(&parent, name, path)?;
        self.empty(&folder, path, stat.st_dev)
    }

    /// Empties a file and keeps it with its owner and mode.
    pub fn truncate(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(()) };
        self.ops.act(Op::Write, "empty", &text(path), || {
            let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::openat(&parent, name, flags, Mode::empty()).map(drop)
        })
    }

    /// Deletes a folder if it is empty. Returns whether it was deleted.
    pub fn remove_empty_folder(&self, path: &str) -> Result<bool, Error> {
        let Some((parent, name)) = self.parent_if_exists(Path::new(path))? else { return Ok(false) };
        if self.kind(path)? != Some(FileKind::Folder) || !self.names(path)?.is_empty() {
            return Ok(false);
        }
        self.ops.act(Op::Remove, "remove", path, || rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR))?;
        Ok(true)
    }

    /// Fails if something is mounted at or below a path.
    pub fn refuse_mounts(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        match self.mount_in(path)? {
            Some(mount) => Err(Error::Mounted { path: text(path), mount }),
            None => Ok(()),
        }
    }

    fn remove_below(&self, parent: &OwnedFd, name: &OsStr, path: &Path, stat: &Stat, device: u64) -> Result<(), Error> {
        if stat.st_dev != device {
            // Mounted after the mount table was read.
            return Err(Error::Mounted { path: text(path), mount: text(path) });
        }
        if FileKind::from_stat(stat) == FileKind::Folder {
            let folder = open_folder(parent, name, path)?;
            self.empty(&folder, path, device)?;
            let flags = AtFlags::REMOVEDIR;
            return self.ops.act(Op::Remove, "remove", &text(path), || rustix::fs::unlinkat(parent, name, flags));
        }
        self.ops.act(Op::Remove, "remove", &text(path), || rustix::fs::unlinkat(parent, name, AtFlags::empty()))
    }

    fn empty(&self, folder: &OwnedFd, path: &Path, device: u64) -> Result<bool, Error> {
        let names = tree::names(Dir::read_from(folder), path)?;
        for name in &names {
            let inner = path.join(name);
            if let Some(stat) = stat_of(folder, name, &inner)? {
                self.remove_below(folder, name, &inner, &stat, device)?;
            }
        }
        Ok(!names.is_empty())
    }
}

fn open_folder(parent: impl AsFd, name: &OsStr, path: &Path) -> Result<OwnedFd, Error> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(|errno| Error::io("open", text(path), errno))
}

fn stat_of(parent: impl AsFd, name: &OsStr, path: &Path) -> Result<Option<Stat>, Error> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::io("stat", text(path), errno)),
    }
}
