//! Reading files to their end, without asking for it twice.

use std::os::fd::AsFd;

use rustix::fs::Stat;
use rustix::io::Errno;

/// The most that is read at once: enough for every file that kilnd writes, and little beside the memory that it may have.
const PIECE: u64 = 64 << 10;

/// What the kernel makes up as it is read has no size and comes by pages.
const PAGE: u64 = 4 << 10;

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
