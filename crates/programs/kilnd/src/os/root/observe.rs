//! The state of files, read-only.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use kiln_node_config::canonical::hex;
use kiln_node_plan::{DesiredFile, FileContent, FileState, Owner};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::os::error::Error;
use crate::os::owners::Owners;
use crate::os::root::read::pieces;
use crate::os::root::{FileKind, Root, split_bytes, text};

/// An open file, or the state of something else.
enum Opened {
    File(OwnedFd, Stat),
    Other(FileState),
}

/// Size and usage of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub size: u64,
    /// Includes what is reserved for root.
    pub used: u64,
}

impl Root {
    /// The usage of the file system of a path.
    pub fn disk(&self, path: &str) -> Result<Disk, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = self.open_at(path, flags).map_err(|errno| Error::io("open", path, errno))?;
        let found = rustix::fs::fstatvfs(&file).map_err(|errno| Error::io("stat the file system of", path, errno))?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        Ok(Disk { size, used: size.saturating_sub(found.f_bavail.saturating_mul(found.f_frsize)) })
    }

    /// The state of each path.
    pub fn observe<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Result<BTreeMap<String, FileState>, Error> {
        paths.into_iter().map(|path| Ok((path.to_owned(), self.file_state(path)?))).collect()
    }

    /// The state of a path. Links are not followed.
    pub fn file_state(&self, path: impl AsRef<Path>) -> Result<FileState, Error> {
        let path = path.as_ref();
        let (file, stat) = match self.open_file(path)? {
            Opened::File(file, stat) => (file, stat),
            Opened::Other(found) => return Ok(found),
        };
        let mut hash = Sha256::new();
        pieces(&file, &stat, u64::MAX, |piece| hash.update(piece))
            .map_err(|errno| Error::io("read", text(path), errno))?;
        let sha256 = hex(&hash.finalize());
        let owner = Owner::from_ids(stat.st_uid, stat.st_gid);
        Ok(FileState::File { sha256, mode: stat.st_mode & 0o7777, owner })
    }

    /// The files whose content, mode or owner differs. Secrets are compared without being hashed.
    pub fn differing<'a>(&self, files: &'a [DesiredFile]) -> Result<Vec<&'a DesiredFile>, Error> {
        let owners = Owners::new(self);
        let mut differ = Vec::new();
        for file in files {
            if !self.is_current(file, &owners)? {
                differ.push(file);
            }
        }
        Ok(differ)
    }

    fn is_current(&self, file: &DesiredFile, owners: &Owners<'_>) -> Result<bool, Error> {
        if let FileContent::Link(target) = &file.content {
            return Ok(self.read_link(&file.path)?.is_some_and(|found| found == Path::new(target)));
        }
        let bytes = file.content.expose();
        let ids = owners.ids(&file.path, &file.owner)?;
        let Opened::File(open, stat) = self.open_file(Path::new(&file.path))? else { return Ok(false) };
        let same_attributes = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (file.mode, ids.uid, ids.gid)
            && u64::try_from(stat.st_size).is_ok_and(|size| size == bytes.len() as u64);
        if !same_attributes {
            return Ok(false);
        }
        let mut current = Vec::with_capacity(bytes.len());
        pieces(&open, &stat, u64::MAX, |piece| current.extend_from_slice(piece))
            .map_err(|errno| Error::io("read", &file.path, errno))?;
        Ok(current == bytes)
    }

    fn open_file(&self, path: &Path) -> Result<Opened, Error> {
        split_bytes(path.as_os_str().as_bytes())?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match self.open_at(path, flags) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Opened::Other(FileState::Absent)),
            // A link, a socket, or a device without a driver.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return self.other_state(path).map(Opened::Other),
            Err(errno) => return Err(Error::io("read", text(path), errno)),
        };
        let stat = fstat(&file).map_err(|errno| Error::io("stat", text(path), errno))?;
        Ok(match FileKind::from_stat(&stat) {
            FileKind::File => Opened::File(file, stat),
            _ => Opened::Other(FileState::Other),
        })
    }

    fn other_state(&self, path: &Path) -> Result<FileState, Error> {
        match self.kind(path)? {
            None => Ok(FileState::Absent),
            Some(FileKind::Link) => {
                // A target that is not UTF-8 differs from every desired one, so the lossy form suffices.
                Ok(FileState::Link { target: text(&self.read_link(path)?.unwrap_or_default()) })
            }
            Some(_) => Ok(FileState::Other),
        }
    }
}
