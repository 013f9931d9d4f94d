//! The folders of a set of files: created if missing, opened once, and synced together.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use kiln_node_plan::selinux::EntryKind;
use rustix::fs::{Mode, OFlags, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::write::Durability;
use crate::os::root::{Root, shown, split};

pub(crate) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The mode of new folders, whatever the umask is. With kilnd's own umask they have it from the moment of their creation.
const MODE: u32 = 0o755;

/// The folders of a set of files.
pub(crate) struct Folders<'r> {
    root: &'r Root,
    /// Folders to sync. A folder that only got a new subfolder is not kept open.
    all: BTreeMap<String, Option<Rc<OwnedFd>>>,
}

impl<'r> Folders<'r> {
    pub(crate) fn new(root: &'r Root) -> Self {
        Self { root, all: BTreeMap::new() }
    }

    /// Opens the folder of a file, and creates it and its parents if they are missing.
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

    /// Syncs the selected folders, unless durability can wait.
    pub(crate) fn sync(&self, durability: Durability, which: impl Fn(&str) -> bool) -> Result<(), Error> {
        if durability == Durability::Later {
            for (path, open) in &self.all {
                open.as_ref().map_or(Ok(()), |open| self.root.note_unsynced(open, path))?;
            }
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
    /// Opens a folder, and creates it and its parents if they are missing. Adds the folders with a new entry to `changed`.
    pub(crate) fn folder(&self, path: &str, changed: &mut Vec<String>) -> Result<OwnedFd, Error> {
        match self.open_at(path, FOLDER) {
            Err(Errno::NOENT) if !path.is_empty() => {}
            found => return found.map_err(|errno| Error::io("open", shown(path), errno)),
        }
        let (above, name) = split(path)?;
        let parent = self.folder(above, changed)?;
        let (made, is_new) = self.ops.act(Op::Folder, "create the folder", path, || {
            let is_new = match mkdirat(&parent, name, MODE.into()) {
                Ok(()) => true,
                // Another process created it, with the mode it wants.
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno),
            };
            let made = openat(&parent, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
            if is_new && fstat(&made)?.st_mode & 0o7777 != MODE {
                fchmod(&made, MODE.into())?;
            }
            Ok::<_, Errno>((made, is_new))
        })?;
        if is_new {
            self.label(&made, path, EntryKind::Folder)?;
        }
        changed.push(above.to_owned());
        Ok(made)
    }

    pub(crate) fn sync_folder(&self, folder: &OwnedFd, path: &str, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Now => self.ops.act(Op::Sync, "sync", shown(path), || rustix::fs::fsync(folder)),
            Durability::Later => self.note_unsynced(folder, path),
        }
    }
}
