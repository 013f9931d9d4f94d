//! Folders that a set of files goes into: each is made where it is missing, opened once, and made durable with the others.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{Mode, OFlags, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::write::Durability;
use crate::os::root::{Root, shown, split};

pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Whatever the caller's umask is. A program whose umask takes nothing from this has no moment at which a folder has another mode.
const MODE: u32 = 0o755;

/// The folders of a set of files.
pub(crate) struct Folders<'r> {
    root: &'r Root,
    /// Those that are to be made durable; one that got a new folder but no file was not kept open.
    all: BTreeMap<String, Option<Rc<OwnedFd>>>,
}

impl<'r> Folders<'r> {
    pub(crate) fn new(root: &'r Root) -> Self {
        Self { root, all: BTreeMap::new() }
    }

    /// Opens a folder that gets a file; makes it, and those above it, where they are missing.
    pub(crate) fn open(&mut self, path: &str) -> Result<Rc<OwnedFd>, Error> {
        if let Some(Some(open)) = self.all.get(path) {
            return Ok(Rc::clone(open));
        }
        let mut changed = Vec::new();
        let open = Rc::new(self.root.folder(path, &mut changed)?);
        for path in changed {
            self.all.entry(path).or_default();
        }
        self.all.insert(path.to_owned(), Some(Rc::clone(&open)));
        Ok(open)
    }

    /// Makes those durable that a condition holds for, where that cannot wait.
    pub(crate) fn sync(&self, durability: Durability, which: impl Fn(&str) -> bool) -> Result<(), Error> {
        if durability == Durability::Later {
            return Ok(());
        }
        for (path, open) in self.all.iter().filter(|(path, _)| which(path)) {
            match open {
                Some(open) => self.root.sync_folder(open, path, durability)?,
                None => self.root.sync_folder(&self.root.folder(path, &mut Vec::new())?, path, durability)?,
            }
        }
        Ok(())
    }
}

impl Root {
    /// Opens a folder; makes it, and those above it, where they are missing. Adds the folders that have a new name in them.
    pub(crate) fn folder(&self, path: &str, changed: &mut Vec<String>) -> Result<OwnedFd, Error> {
        match self.open_at(path, FOLDER) {
            Err(Errno::NOENT) if !path.is_empty() => {}
            found => return found.map_err(|errno| Error::io("open", shown(path), errno)),
        }
        let (above, name) = split(path)?;
        let parent = self.folder(above, changed)?;
        let made = self.ops.act(Op::Folder, "make the folder", path, || {
            let is_ours = match mkdirat(&parent, name, MODE.into()) {
                Ok(()) => true,
                // Somebody was quicker, and it is as they want it.
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno),
            };
            let made = openat(&parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
            if is_ours && fstat(&made)?.st_mode & 0o7777 != MODE {
                fchmod(&made, MODE.into())?;
            }
            Ok::<_, Errno>(made)
        })?;
        changed.push(above.to_owned());
        Ok(made)
    }

    pub(crate) fn sync_folder(&self, folder: &OwnedFd, path: &str, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Now => self.ops.act(Op::Sync, "sync", shown(path), || rustix::fs::fsync(folder)),
            Durability::Later => Ok(()),
        }
    }
}
