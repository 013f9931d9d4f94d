//! What is there, without changing it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::owners::Owners;
use crate::root::write::{Placed, What};
use crate::root::{Kind, Root};

/// What stands at a path. Links are not followed: who wants a file there wants no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File {
        /// SHA-256 of its bytes in hexadecimal digits.
        sha256: String,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
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

/// Mode, owner and group.
type Attributes = (u32, u32, u32);

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
        let Some((mut file, found)) = self.open_file(path)? else { return self.no_file(path) };
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => hash.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", path, error)),
            }
        }
        let sha256 = hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Found::File { sha256, mode: found.0, uid: found.1, gid: found.2 })
    }

    /// Which of the files are not there just so: bytes, mode and owner. Secrets are compared without being hashed.
    pub fn differing<'a, 'p>(&self, files: &'a [Placed<'p>]) -> Result<Vec<&'a Placed<'p>>, Error> {
        let owners = Owners::of(self)?;
        let mut differ = Vec::new();
        for file in files {
            if !self.is_so(file, &owners)? {
                differ.push(file);
            }
        }
        Ok(differ)
    }

    fn is_so(&self, file: &Placed<'_>, owners: &Owners) -> Result<bool, Error> {
        let bytes = match file.what {
            What::Link(target) => return Ok(self.read_link(file.path)?.as_deref() == Some(target)),
            What::Bytes(bytes) => bytes,
        };
        let ids = owners.ids(file.path, file.user, file.group)?;
        match self.open_file(file.path)? {
            Some((open, found)) => Ok(found == (file.mode, ids.uid, ids.gid) && same_bytes(open, bytes, file.path)?),
            None => Ok(false),
        }
    }

    fn open_file(&self, path: &str) -> Result<Option<(File, Attributes)>, Error> {
        let Some((parent, name)) = self.parent_if_there(path)? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::openat(&parent, name, flags, rustix::fs::Mode::empty()) {
            Ok(file) => file,
            // A link, a socket, a device without a driver, nothing.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::io("read", path, errno)),
        };
        let stat = fstat(&file).map_err(|errno| Error::io("look at", path, errno))?;
        let is_file = Kind::of(&stat) == Kind::File;
        Ok(is_file.then(|| (File::from(file), (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid))))
    }

    fn no_file(&self, path: &str) -> Result<Found, Error> {
        match self.kind(path)? {
            None => Ok(Found::Absent),
            Some(Kind::Link) => Ok(Found::Link { target: self.read_link(path)?.unwrap_or_default() }),
            Some(kind) => Ok(Found::Other(kind)),
        }
    }
}

fn same_bytes(file: File, wanted: &[u8], path: &str) -> Result<bool, Error> {
    let mut bytes = Vec::with_capacity(wanted.len() + 1);
    let longer = wanted.len() as u64 + 1;
    file.take(longer).read_to_end(&mut bytes).map_err(|source| Error::io("read", path, source))?;
    Ok(bytes == wanted)
}
