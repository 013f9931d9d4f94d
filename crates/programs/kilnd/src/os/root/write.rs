//! Writes files as a set: all of them are prepared under temporary names, synced, and then renamed. A failure before the first rename changes
//! nothing. Renames are atomic per file, so a reader or a power cut sees either the old or the new content.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use kiln_node_plan::selinux::EntryKind;
use kiln_node_plan::{DesiredFile, FileContent};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::owners::Owners;
use crate::os::root::folders::Folders;
use crate::os::root::{Root, split};

/// When a change has to be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the call returns.
    Now,
    /// At the next [`Root::sync`]. Used during a first boot, which is repeated after a power cut.
    Later,
}

/// A file that is prepared next to its target.
struct Staged<'p> {
    file: &'p DesiredFile,
    parent: Rc<OwnedFd>,
    name: &'p str,
    temporary: String,
    /// None for a link.
    open: Option<OwnedFd>,
}

impl Root {
    /// Writes files as a set. On an error before the first rename nothing has changed. The renames follow one by one; what has to change as a
    /// whole belongs into a [generation](crate::os::Generations).
    pub fn write_all<F: Borrow<DesiredFile>>(&self, files: &[F], durability: Durability) -> Result<(), Error> {
        let mut folders = Folders::new(self);
        let mut staged = Vec::with_capacity(files.len());
        if let Err(error) = self.prepare(files, &mut folders, &mut staged, durability) {
            self.abandon(&staged);
            return Err(error);
        }
        for (done, file) in staged.iter().enumerate() {
            if let Err(error) = self.place(file) {
                self.abandon(&staged[done..]);
                return Err(error);
            }
        }
        folders.sync(durability, |_| true)
    }

    /// Points a link at a target atomically. This is how a generation is put in force.
    pub fn replace_link(&self, link: &str, target: &str, durability: Durability) -> Result<(), Error> {
        let (folder, name) = split(link)?;
        let mut folders = Folders::new(self);
        let parent = folders.open(folder)?;
        let temporary = temporary(name);
        self.replacing_leftover(&parent, &temporary, link, || {
            self.ops.act(Op::Link, "create the link", link, || rustix::fs::symlinkat(target, &parent, &temporary))
        })?;
        self.label_link(&parent, &temporary, link)?;
        self.ops.act(Op::Rename, "replace", link, || rustix::fs::renameat(&parent, &temporary, &parent, name))?;
        folders.sync(durability, |_| true)
    }

    fn prepare<'p, F: Borrow<DesiredFile>>(
        &self,
        files: &'p [F],
        folders: &mut Folders<'_>,
        staged: &mut Vec<Staged<'p>>,
        durability: Durability,
    ) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let files = || files.iter().map(Borrow::borrow);
        for file in files() {
            if !seen.insert(file.path.as_str()) {
                return Err(Error::Path { path: file.path.clone(), why: "written twice in one set" });
            }
        }
        let owners = Owners::new(self);
        for file in files() {
            let (folder, name) = split(&file.path)?;
            let parent = folders.open(folder)?;
            staged.push(Staged { file, parent, name, temporary: temporary(name), open: None });
            if let Some(Staged { parent, temporary, open, .. }) = staged.last_mut() {
                *open = self.replacing_leftover(parent, temporary, &file.path, || {
                    self.make(parent, temporary, file, &owners)
                })?;
            }
        }
        if durability == Durability::Now {
            for file in staged.iter() {
                if let Some(open) = &file.open {
                    self.ops.act(Op::Sync, "sync", &file.file.path, || rustix::fs::fsync(open))?;
                }
            }
        }
        Ok(())
    }

    /// Creates something under a temporary name, after deleting what a killed process left there.
    fn replacing_leftover<T>(
        &self,
        parent: &OwnedFd,
        name: &str,
        path: &str,
        make: impl Fn() -> Result<T, Error>,
    ) -> Result<T, Error> {
        match make() {
            Err(error) if error.errno() == Some(Errno::EXIST) => {
                self.clear(parent, name, path)?;
                make()
            }
            done => done,
        }
    }

    /// Creates a file or link. A file that is not public is created with mode 0600, so that at no time a user can read it who may not read the
    /// final file. The mode is set after the owner, because changing the owner drops set-user-id bits.
    pub(crate) fn make(
        &self,
        parent: &OwnedFd,
        name: &str,
        file: &DesiredFile,
        owners: &Owners<'_>,
    ) -> Result<Option<OwnedFd>, Error> {
        let path = &file.path;
        if let FileContent::Link(target) = &file.content {
            self.ops.act(Op::Link, "create the link", path, || rustix::fs::symlinkat(target, parent, name))?;
            self.label_link(parent, name, path)?;
            return Ok(None);
        }
        let bytes = file.content.expose();
        let ids = owners.ids(path, &file.owner)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_public = file.mode & 0o004 != 0;
        let mode = if is_public { file.mode & 0o755 } else { 0o600 };
        let open = self.ops.act(Op::Create, "create", path, || rustix::fs::openat(parent, name, flags, mode.into()))?;
        self.label(&open, path, EntryKind::File)?;
        self.write_bytes(&open, bytes, path)?;
        self.ops.act(Op::Attributes, "set owner and mode of", path, || {
            let stat = rustix::fs::fstat(&open)?;
            if (stat.st_uid, stat.st_gid) != (ids.uid, ids.gid) {
                rustix::fs::fchown(&open, Some(Uid::from_raw(ids.uid)), Some(Gid::from_raw(ids.gid)))?;
            }
            if stat.st_mode & 0o7777 == file.mode {
                return Ok(());
            }
            rustix::fs::fchmod(&open, Mode::from_raw_mode(file.mode))
        })?;
        Ok(Some(open))
    }

    /// Writes bytes. Counts as two operations, so that a test can stop in the middle of a file.
    fn write_bytes(&self, open: &OwnedFd, bytes: &[u8], path: &str) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.ops.begin(Op::Write)?;
        let stopped = self.ops.begin(Op::Write).err();
        let written = if stopped.is_some() { &bytes[..bytes.len() / 2] } else { bytes };
        write_whole(open, written).map_err(|errno| Error::io("write", path, errno))?;
        stopped.map_or(Ok(()), Err)
    }

    fn place(&self, file: &Staged<'_>) -> Result<(), Error> {
        let renamed = self.ops.act(Op::Rename, "replace", &file.file.path, || {
            rustix::fs::renameat(&file.parent, &file.temporary, &file.parent, file.name)
        });
        match renamed {
            // Something is mounted over the target.
            Err(error) if matches!(error.errno(), Some(Errno::BUSY | Errno::XDEV)) => {}
            done => return done,
        }
        self.overwrite(file)?;
        self.clear(&file.parent, &file.temporary, &file.file.path)
    }

    /// Overwrites a file that cannot be renamed over because it is a bind mount. The old content is restored if the disk is full.
    fn overwrite(&self, file: &Staged<'_>) -> Result<(), Error> {
        let path = &file.file.path;
        if matches!(file.file.content, FileContent::Link(_)) {
            return Err(Error::Mounted { path: path.clone(), mount: path.clone() });
        }
        let bytes = file.file.content.expose();
        let before = self.read(path)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::openat(&file.parent, file.name, flags, Mode::empty())
            .map_err(|errno| Error::io("write to the mounted", path, errno))?;
        let written = self.ops.act(Op::Write, "write to the mounted", path, || {
            rustix::fs::ftruncate(&open, 0).and_then(|()| write_whole(&open, bytes))
        });
        if let Err(error) = written {
            let restored = self.ops.act(Op::Write, "restore the mounted", path, || {
                rustix::fs::ftruncate(&open, 0)?;
                rustix::fs::seek(&open, rustix::fs::SeekFrom::Start(0))?;
                write_whole(&open, &before)
            });
            return restored.and(Err(error));
        }
        self.ops.act(Op::Sync, "sync", path, || rustix::fs::fsync(&open))
    }

    /// Deletes prepared files. Errors are ignored, because the original error is reported.
    fn abandon(&self, staged: &[Staged<'_>]) {
        for file in staged {
            let _ = self.clear(&file.parent, &file.temporary, &file.file.path);
        }
    }

    fn clear(&self, parent: &OwnedFd, name: &str, path: &str) -> Result<(), Error> {
        self.ops.act(Op::Remove, "delete the temporary file for", path, || {
            rustix::fs::unlinkat(parent, name, AtFlags::empty())
        })
    }
}

/// The temporary name of a file. It is in the folder of the target, so that the file gets the right security label, and has a leading dot and
/// an unusual suffix, so that programs which read whole folders (sysctl.d, certs.d, static pods, sudoers.d) ignore it.
pub(crate) fn temporary(name: &str) -> String {
    format!(".{name}{TEMPORARY}")
}

/// The suffix of temporary names.
pub(crate) const TEMPORARY: &str = ".kiln-new";

fn write_whole(open: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(open, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
