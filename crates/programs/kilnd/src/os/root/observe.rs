//! What is there, without changing it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use kiln_node_config::canonical::hex;
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::os::error::Error;
use crate::os::owners::Owners;
use crate::os::root::read::pieces;
use crate::os::root::write::{Placed, What};
use crate::os::root::{Kind, Root, split};

/// What stands at a path. Links are not followed: who wants a file there wants no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    File {
        /// SHA-256 of its bytes in hexadecimal digits.
        sha256: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// Where to.
        target: String,
    },
    /// Something that is neither.
    Other(Kind),
    /// Nothing.
    Absent,
}

/// A file that is open, or what stands there instead.
enum Opened {
    File(OwnedFd, Stat),
    Other(Found),
}

/// Size and use of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// All of it.
    pub size: u64,
    /// What is taken, and what is kept back for the superuser.
    pub used: u64,
}

impl Root {
    /// How full the file system of a path is.
    pub fn disk(&self, path: &str) -> Result<Disk, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = self.open_at(path, flags).map_err(|errno| Error::io("open", path, errno))?;
        let found =
            rustix::fs::fstatvfs(&file).map_err(|errno| Error::io("look at the file system of", path, errno))?;
        let size = found.f_blocks.saturating_mul(found.f_frsize);
        Ok(Disk { size, used: size.saturating_sub(found.f_bavail.saturating_mul(found.f_frsize)) })
    }

    /// What stands at each path.
    pub fn observe<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Result<BTreeMap<String, Found>, Error> {
        paths.into_iter().map(|path| Ok((path.to_owned(), self.look(path)?))).collect()
    }

    /// What stands at a path.
    pub fn look(&self, path: &str) -> Result<Found, Error> {
        let (file, stat) = match self.open_file(path)? {
            Opened::File(file, stat) => (file, stat),
            Opened::Other(found) => return Ok(found),
        };
        let mut hash = Sha256::new();
        pieces(&file, &stat, u64::MAX, |piece| hash.update(piece)).map_err(|errno| Error::io("read", path, errno))?;
        let sha256 = hex(&hash.finalize());
        Ok(Found::File { sha256, mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid })
    }

    /// Which of the files are not there just so: bytes, mode and owner. Secrets are compared without being hashed.
    pub fn differing<'a, 'p>(&self, files: &'a [Placed<'p>]) -> Result<Vec<&'a Placed<'p>>, Error> {
        let owners = Owners::of(self);
        let mut differ = Vec::new();
        for file in files {
            if !self.is_so(file, &owners)? {
                differ.push(file);
            }
        }
        Ok(differ)
    }

    fn is_so(&self, file: &Placed<'_>, owners: &Owners<'_>) -> Result<bool, Error> {
        let bytes = match file.what {
            What::Link(target) => return Ok(self.read_link(file.path)?.as_deref() == Some(target)),
            What::Bytes(bytes) => bytes,
        };
        let ids = owners.ids(file.path, file.user, file.group)?;
        let Opened::File(open, stat) = self.open_file(file.path)? else { return Ok(false) };
        let is_like = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (file.mode, ids.uid, ids.gid)
            && u64::try_from(stat.st_size).is_ok_and(|size| size == bytes.len() as u64);
        if !is_like {
            return Ok(false);
        }
        let mut there = Vec::with_capacity(bytes.len());
        pieces(&open, &stat, u64::MAX, |piece| there.extend_from_slice(piece))
            .map_err(|errno| Error::io("read", file.path, errno))?;
        Ok(there == bytes)
    }

    fn open_file(&self, path: &str) -> Result<Opened, Error> {
        split(path)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match self.open_at(path, flags) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Opened::Other(Found::Absent)),
            // A link, a socket, a device without a driver.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return self.no_file(path).map(Opened::Other),
            Err(errno) => return Err(Error::io("read", path, errno)),
        };
        let stat = fstat(&file).map_err(|errno| Error::io("look at", path, errno))?;
        Ok(match Kind::of(&stat) {
            Kind::File => Opened::File(file, stat),
            kind => Opened::Other(Found::Other(kind)),
        })
    }

    fn no_file(&self, path: &str) -> Result<Found, Error> {
        match self.kind(path)? {
            None => Ok(Found::Absent),
            Some(Kind::Link) => Ok(Found::Link { target: self.read_link(path)?.unwrap_or_default() }),
            Some(kind) => Ok(Found::Other(kind)),
        }
    }
}
