//! The root folder of a node. No path and no link leads out of it. Names on a disk are bytes: a listing returns them as they are, and methods that
//! read or delete accept them.
//!
//! [`write`] replaces files atomically, as a set, and [`folders`] creates and syncs their folders. [`read`] and [`observe`] read files and their
//! state, [`remove`] deletes without crossing mounts, [`tree`] lists folders, [`label`] sets SELinux labels, and [`resolve`] replaces `openat2` on old kernels.

pub(crate) mod folders;
mod label;
pub(crate) mod observe;
pub(crate) mod read;
pub(crate) mod remove;
mod resolve;
pub(crate) mod tree;
mod tree_view;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_node_plan::Owner;
use kiln_node_plan::selinux::EntryKind;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::{Counts, Op, Ops};
use crate::os::owners::Owners;
use crate::os::root::folders::FOLDER;

/// How often a lookup is retried when a component was renamed meanwhile.
const RETRIES: u32 = 32;

/// The root folder. Paths are absolute, as in a chroot into it.
#[derive(Clone, Debug)]
pub struct Root {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    is_host: bool,
    labels: Arc<label::Labels>,
    pub(crate) ops: Arc<Ops>,
    /// One open folder of each file system that was written to and not synced, by device number.
    unsynced: Arc<Mutex<BTreeMap<u64, (String, OwnedFd)>>>,
}

/// The type of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    Link,
    /// A device, a socket or a pipe.
    Other,
}

impl FileKind {
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Other => "a device, a socket or a pipe",
        }
    }
}

impl Root {
    /// Opens a root folder; `/` is this machine.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::io("open", path.display().to_string(), source);
        let open = |path: &Path| {
            let folder = rustix::fs::open(path, FOLDER, Mode::empty())?;
            let stat = rustix::fs::fstat(&folder)?;
            Ok::<_, Errno>((folder, (stat.st_dev, stat.st_ino)))
        };
        let (folder, identity) = open(path).map_err(|errno| failed(errno.into()))?;
        let absolute = std::path::absolute(path).map_err(failed)?;
        // The canonical form of `/proc/ID/root` is `/`, though the folder is another process's root.
        let canonical = path.canonicalize().ok();
        let canonical = canonical.filter(|path| open(path).is_ok_and(|(_, other)| other == identity));
        let path = canonical.unwrap_or(absolute);
        Ok(Self {
            folder: Arc::new(folder),
            is_host: path == Path::new("/"),
            path,
            labels: Arc::default(),
            ops: Arc::default(),
            unsynced: Arc::default(),
        })
    }

    /// Whether this is the running machine.
    pub fn is_host(&self) -> bool {
        self.is_host
    }

    /// The path of the root folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operations so far, of this value and its clones.
    pub fn counts(&self) -> Counts {
        self.ops.counts()
    }

    /// Stops after so many operations: each later one, including cleanup, fails with [`Error::Stopped`] and does nothing. The result is what
    /// a killed process would leave behind.
    pub fn stop_after(&self, operations: Option<u64>) {
        self.ops.stop_after(operations);
    }

    /// The kind of an entry; none if it does not exist. Links are not followed.
    pub fn kind(&self, path: impl AsRef<Path>) -> Result<Option<FileKind>, Error> {
        Ok(self.stat(path)?.map(|stat| FileKind::from_stat(&stat)))
    }

    /// The target of a link; none if it does not exist or is not a link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<Option<PathBuf>, Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(None) };
        match rustix::fs::readlinkat(&parent, name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(Error::io("read the link", text(path), errno)),
        }
    }

    /// The names in a folder, sorted; empty if it does not exist.
    pub fn names(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>, Error> {
        let path = path.as_ref();
        match self.open_at(path, FOLDER) {
            Ok(folder) => tree::names(Dir::new(folder), path),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Vec::new()),
            Err(errno) => Err(Error::io("list", text(path), errno)),
        }
    }

    /// The same without names that are not UTF-8, for folders whose files have names that kilnd knows.
    pub fn text_names(&self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        Ok(self.names(path)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Creates a folder with mode and owner, and its parents with defaults. An existing folder stays unchanged.
    pub fn make_folder_as(&self, path: &str, mode: u32, owner: &Owner) -> Result<(), Error> {
        if self.kind(path)?.is_some() {
            return Ok(());
        }
        let ids = Owners::new(self).ids(path, owner)?;
        let (folder, name) = split(path)?;
        let parent = self.folder(folder, &mut Vec::new())?;
        let temporary = write::temporary(name);
        self.ops.act(Op::Folder, "create the folder", path, || {
            match rustix::fs::unlinkat(&parent, &temporary, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => rustix::fs::mkdirat(&parent, &temporary, 0o700.into()),
                Err(errno) => Err(errno),
            }
        })?;
        let open = rustix::fs::openat(&parent, &temporary, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        self.label(open.map_err(|errno| Error::io("open", path, errno))?, path, EntryKind::Folder)?;
        self.ops.act(Op::Attributes, "set owner and mode of", path, || {
            let (user, group) = (Uid::from_raw(ids.uid), Gid::from_raw(ids.gid));
            rustix::fs::chownat(&parent, &temporary, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
            rustix::fs::chmodat(&parent, &temporary, Mode::from_raw_mode(mode), AtFlags::empty())
        })?;
        self.ops.act(Op::Rename, "rename", path, || rustix::fs::renameat(&parent, &temporary, &parent, name))
    }

    /// The path that a file would have if the links to its folder were replaced with their targets. Folders that do not exist yet are not
    /// links.
    pub fn real_path(&self, path: &str) -> Result<String, Error> {
        let (mut folder, name) = split(path)?;
        let mut rest = vec![name];
        loop {
            match self.open_at(shown(folder), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC) {
                Ok(open) => {
                    let link = format!("/proc/self/fd/{}", open.as_raw_fd());
                    let real = std::fs::read_link(&link).map_err(|source| Error::io("resolve", path, source))?;
                    let inside = real.strip_prefix(&self.path).unwrap_or(&real).to_string_lossy().into_owned();
                    rest.push(inside.trim_matches('/'));
                    let parts: Vec<&str> = rest.into_iter().rev().filter(|part| !part.is_empty()).collect();
                    return Ok(format!("/{}", parts.join("/")));
                }
                Err(Errno::NOENT | Errno::NOTDIR) if !folder.is_empty() => {
                    let (parent, name) = folder.rsplit_once('/').unwrap_or(("", folder));
                    rest.push(name);
                    folder = parent;
                }
                Err(errno) => return Err(Error::io("open", shown(folder), errno)),
            }
        }
    }

    /// Syncs the file systems of these paths, and all others that were written to with [`write::Durability::Later`]: `/home` and the folders
    /// of a document's files may be on file systems of their own.
    pub fn sync(&self, paths: &[&str]) -> Result<(), Error> {
        let mut all = std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for path in paths {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let file = self.open_at(path, flags).map_err(|errno| Error::io("open", *path, errno))?;
            let stat = rustix::fs::fstat(&file).map_err(|errno| Error::io("stat", *path, errno))?;
            all.insert(stat.st_dev, ((*path).to_owned(), file));
        }
        for (path, file) in all.values() {
            self.ops.act(Op::SyncAll, "sync the file system of", path, || rustix::fs::syncfs(file))?;
        }
        Ok(())
    }

    /// Remembers that the file system of a folder has to be synced. `/run` does not survive a power cut anyway.
    pub(crate) fn note_unsynced(&self, folder: &OwnedFd, path: &str) -> Result<(), Error> {
        if path == "/run" || path.starts_with("/run/") {
            return Ok(());
        }
        let failed = |errno: Errno| Error::io("stat", shown(path), errno);
        let device = rustix::fs::fstat(folder).map_err(failed)?.st_dev;
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        if let std::collections::btree_map::Entry::Vacant(entry) = unsynced.entry(device) {
            let folder = rustix::io::fcntl_dupfd_cloexec(folder, 0).map_err(failed)?;
            entry.insert((path.to_owned(), folder));
        }
        Ok(())
    }

    /// Opens a path inside the root.
    pub(crate) fn open_at(&self, path: impl AsRef<Path>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = path.as_ref();
        let path = if path.as_os_str().is_empty() { Path::new("/") } else { path };
        if self.is_host {
            // Nothing leads out of `/`.
            return rustix::fs::openat(&*self.folder, path, flags, Mode::empty());
        }
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..RETRIES {
            match rustix::fs::openat2(&*self.folder, path, flags, Mode::empty(), inside) {
                Err(Errno::AGAIN) => {}
                // A kernel before 5.6, or a seccomp filter that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => return resolve::open_in(&*self.folder, path, flags),
                done => return done,
            }
        }
        Err(Errno::AGAIN)
    }

    /// The metadata of an entry; none if it does not exist.
    pub(crate) fn stat(&self, path: impl AsRef<Path>) -> Result<Option<Stat>, Error> {
        let path = path.as_ref();
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(None) };
        match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("stat", text(path), errno)),
        }
    }

    /// The open parent folder, and the last component of a path.
    pub(crate) fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Error> {
        let (folder, name) = split_bytes(path.as_os_str().as_bytes())?;
        let (folder, name) = (Path::new(OsStr::from_bytes(folder)), OsStr::from_bytes(name));
        let fd = self.open_at(folder, FOLDER).map_err(|errno| Error::io("open", shown(&text(folder)), errno))?;
        Ok((fd, name))
    }

    /// The same; none if the parent does not exist.
    pub(crate) fn parent_if_exists<'p>(&self, path: &'p Path) -> Result<Option<(OwnedFd, &'p OsStr)>, Error> {
        match self.parent(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A folder for messages: the root is an empty string internally.
pub(crate) fn shown(folder: &str) -> &str {
    if folder.is_empty() { "/" } else { folder }
}

/// A path for messages.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Splits a path into its folder and last component.
pub(crate) fn split(path: &str) -> Result<(&str, &str), Error> {
    let (folder, _) = split_bytes(path.as_bytes())?;
    Ok((&path[..folder.len()], &path[folder.len() + 1..]))
}

fn split_bytes(path: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let bad = |why| Error::Path { path: String::from_utf8_lossy(path).into_owned(), why };
    let rest = path.strip_prefix(b"/").ok_or_else(|| bad("not absolute"))?;
    if rest.split(|byte| *byte == b'/').any(|part| [&b".."[..], b".", b""].contains(&part)) {
        return Err(bad("contains an empty component, `.` or `..`"));
    }
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
    Ok((&path[..end], &path[end + 1..]))
}
