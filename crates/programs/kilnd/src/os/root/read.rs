//! Reading files to their end, without asking for it twice.

use std::os::fd::AsFd;

use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::{FileKind, Root};

/// What a configuration file may have at most. Nothing that kilnd reads whole is larger, and a mistaken path to a disk must not fill the
/// memory.
const LIMIT: u64 = 64 << 20;

/// The most that is read at once: enough for every file that kilnd writes, and little beside the memory that it may have.
const PIECE: u64 = 64 << 10;

/// What the kernel makes up as it is read has no size and comes by pages.
const PAGE: u64 = 4 << 10;

/// A file's bytes with the rights of that very file, whatever link led to it and whatever stands at the path meanwhile.
pub struct Contents {
    /// What is in it.
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
}

/// Without the bytes, which may be a secret.
impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, {:04o} of {}", self.bytes.len(), self.mode, self.uid)
    }
}

impl Root {
    /// A file, and who may read it. Links are followed, inside the root.
    pub fn contents(&self, path: &str) -> Result<Contents, Error> {
        // A pipe must not block us, and a device must not be read: opened without waiting, then looked at.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let failed = |errno: Errno| Error::io("read", path, errno);
        let file = self.open_at(path, flags).map_err(failed)?;
        let stat = fstat(&file).map_err(failed)?;
        let kind = FileKind::from_stat(&stat);
        if kind != FileKind::File {
            return Err(Error::Kind { path: path.to_owned(), found: kind.name(), wanted: "a file" });
        }
        let mut bytes = Vec::new();
        pieces(&file, &stat, LIMIT + 1, |piece| bytes.extend_from_slice(piece)).map_err(failed)?;
        let size = bytes.len() as u64;
        if size > LIMIT {
            return Err(Error::TooLarge { path: path.to_owned(), size, limit: LIMIT });
        }
        Ok(Contents { bytes, mode: stat.st_mode & 0o7777, uid: stat.st_uid })
    }

    /// The bytes of a file. Links are followed, inside the root.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        Ok(self.contents(path)?.bytes)
    }

    /// The bytes of a file; none when there is none.
    pub fn read_if_exists(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.contents_if_exists(path)?.map(|contents| contents.bytes))
    }

    /// A file, and who may read it; none when there is none.
    pub fn contents_if_exists(&self, path: &str) -> Result<Option<Contents>, Error> {
        match self.contents(path) {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if error.is_not_found() || error.errno() == Some(Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads a file piece by piece until it ends or has given `limit` bytes. One that has as many as it says ends there.
pub(super) fn pieces(file: impl AsFd, stat: &Stat, limit: u64, mut take: impl FnMut(&[u8])) -> Result<(), Errno> {
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let mut buffer = vec![0; usize::try_from(size.clamp(PAGE, PIECE)).unwrap_or_default()];
    let mut total = 0;
    while total < limit {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                take(&buffer[..count]);
                total += count as u64;
                if total == size {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
