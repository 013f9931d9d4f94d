//! Writing files as a set: all are prepared, all are made durable, all are renamed. What cannot be prepared changes nothing.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use kiln_node_plan::{DesiredFile, FileContent};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::owners::Owners;
use crate::os::root::folders::Folders;
use crate::os::root::{Root, split};

/// When a change is to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the call returns.
    Now,
    /// At the next [`Root::sync`]: at first boot nothing waits for a disk, and a power cut is a first boot again.
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
    /// Writes files as a set. On an error before the first rename nothing has changed; the last phase replaces one name after the other,
    /// each wholly. Whoever needs all or nothing writes a [generation](crate::os::Generations).
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

    /// Points a link at a target, in one step. This is what commits a generation.
    pub fn replace_link(&self, link: &str, target: &str, durability: Durability) -> Result<(), Error> {
        let (folder, name) = split(link)?;
        let mut folders = Folders::new(self);
        let parent = folders.open(folder)?;
        let temporary = temporary(name);
        self.in_place_of_left(&parent, &temporary, link, || {
            self.ops.act(Op::Link, "make the link", link, || rustix::fs::symlinkat(target, &parent, &temporary))
        })?;
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
                return Err(Error::Path { path: file.path.clone(), why: "it is to be written twice" });
            }
        }
        let owners = Owners::new(self);
        for file in files() {
            let (folder, name) = split(&file.path)?;
            let parent = folders.open(folder)?;
            staged.push(Staged { file, parent, name, temporary: temporary(name), open: None });
            if let Some(Staged { parent, temporary, open, .. }) = staged.last_mut() {
                *open = self
                    .in_place_of_left(parent, temporary, &file.path, || self.make(parent, temporary, file, &owners))?;
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

    /// Makes something under the name of a file in preparation. What a writer left there that was killed goes first.
    fn in_place_of_left<T>(
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

    /// Makes a file, or a link, under a name that is free. Nobody reads the file until all of it is there who may not read it then: bytes,
    /// then owner, then mode, since a change of owner drops set-user-id bits.
    pub(crate) fn make(
        &self,
        parent: &OwnedFd,
        name: &str,
        file: &DesiredFile,
        owners: &Owners<'_>,
    ) -> Result<Option<OwnedFd>, Error> {
        let path = &file.path;
        if let FileContent::Link(target) = &file.content {
            self.ops.act(Op::Link, "make the link", path, || rustix::fs::symlinkat(target, parent, name))?;
            return Ok(None);
        }
        let bytes = file.content.expose();
        let ids = owners.ids(path, &file.owner)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let is_public = file.mode & 0o004 != 0;
        let mode = if is_public { file.mode & 0o755 } else { 0o600 };
        let open = self.ops.act(Op::Create, "create", path, || rustix::fs::openat(parent, name, flags, mode.into()))?;
        self.pour(&open, bytes, path)?;
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

    /// Writes bytes. Counts as two, so that a test can stop in the middle of a file.
    fn pour(&self, open: &OwnedFd, bytes: &[u8], path: &str) -> Result<(), Error> {
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
            // Something is mounted over it.
            Err(error) if matches!(error.errno(), Some(Errno::BUSY | Errno::XDEV)) => {}
            done => return done,
        }
        self.overwrite(file)?;
        self.clear(&file.parent, &file.temporary, &file.file.path)
    }

    /// Writes into a file that cannot be replaced, a bind mount. What was in it comes back when there is no room for the new.
    fn overwrite(&self, file: &Staged<'_>) -> Result<(), Error> {
        let path = &file.file.path;
        if matches!(file.file.content, FileContent::Link(_)) {
            return Err(Error::Mounted { path: path.clone(), mount: path.clone() });
        }
        let bytes = file.file.content.expose();
        let before = self.read(path)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = rustix::fs::openat(&file.parent, file.name, flags, Mode::empty())
            .map_err(|errno| Error::io("write into the mounted", path, errno))?;
        let written = self.ops.act(Op::Write, "write into the mounted", path, || {
            rustix::fs::ftruncate(&open, 0).and_then(|()| write_whole(&open, bytes))
        });
        if let Err(error) = written {
            let back = self.ops.act(Op::Write, "put back the mounted", path, || {
                rustix::fs::ftruncate(&open, 0)?;
                rustix::fs::seek(&open, rustix::fs::SeekFrom::Start(0))?;
                write_whole(&open, &before)
            });
            return back.and(Err(error));
        }
        self.ops.act(Op::Sync, "sync", path, || rustix::fs::fsync(&open))
    }

    /// Takes prepared files away again. Fails quietly: the error that led here is the one to tell.
    fn abandon(&self, staged: &[Staged<'_>]) {
        for file in staged {
            let _ = self.clear(&file.parent, &file.temporary, &file.file.path);
        }
    }

    fn clear(&self, parent: &OwnedFd, name: &str, path: &str) -> Result<(), Error> {
        self.ops.act(Op::Remove, "clear the way for", path, || rustix::fs::unlinkat(parent, name, AtFlags::empty()))
    }
}

/// The name of a file in preparation. In the folder of its target, so that it gets the security label of its place; with a leading dot and
/// a foreign ending, so that no program that reads a whole folder (sysctl.d, certs.d, static pods, sudoers.d) takes it.
pub(crate) fn temporary(name: &str) -> String {
    format!(".{name}.kiln-new")
}

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
