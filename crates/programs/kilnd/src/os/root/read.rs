//! Reads files with a size limit.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::{FileKind, Root, text};

/// The size limit. Everything that kilnd reads as a whole is smaller, and a wrong path to a disk must not fill the memory.
const LIMIT: u64 = 64 << 20;

/// The largest buffer: enough for every file that kilnd writes, and small compared with its memory limit.
const PIECE: u64 = 64 << 10;

/// Virtual files of the kernel have no size and are read in pages.
const PAGE: u64 = 4 << 10;

/// The bytes of a file with its mode and owner, both from the same open file.
pub struct Contents {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Does not show the bytes, which may be secret.
impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, mode {:04o}, uid {}", self.bytes.len(), self.mode, self.uid)
    }
}

impl Root {
    /// A file with its mode and owner. Links are followed inside the root.
    pub fn contents(&self, path: impl AsRef<Path>) -> Result<Contents, Error> {
        let path = path.as_ref();
        // Opened without blocking and then checked: a pipe must not block kilnd, and a device must not be read.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let failed = |errno: Errno| Error::io("read", text(path), errno);
        let file = self.open_at(path, flags).map_err(failed)?;
        let stat = fstat(&file).map_err(failed)?;
        let kind = FileKind::from_stat(&stat);
        if kind != FileKind::File {
            return Err(Error::Kind { path: text(path), found: kind.name(), wanted: "a file" });
        }
        let mut bytes = Vec::new();
        pieces(&file, &stat, LIMIT + 1, |piece| bytes.extend_from_slice(piece)).map_err(failed)?;
        let size = bytes.len() as u64;
        if size > LIMIT {
            return Err(Error::TooLarge { path: text(path), size, limit: LIMIT });
        }
        Ok(Contents { bytes, mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid })
    }

    /// The bytes of a file. Links are followed inside the root.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        Ok(self.contents(path)?.bytes)
    }

    /// The bytes of a file; none if it does not exist.
    pub fn read_if_exists(&self, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.contents_if_exists(path)?.map(|contents| contents.bytes))
    }

    /// A file with its mode and owner; none if it does not exist.
    pub fn contents_if_exists(&self, path: impl AsRef<Path>) -> Result<Option<Contents>, Error> {
        match self.contents(path) {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if error.is_not_found() || error.errno() == Some(Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reads a file in pieces until its end or `limit`. If the size is known, the final read that would return zero is skipped.
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
