//! A swap file, without the tool that makes one.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What the kernel counts swap in, on every machine that kiln runs on.
const PAGE: u64 = 4096;
/// Where the header stands in the first page; before it there is room for a boot loader.
const HEADER: u64 = 1024;
/// What the first page ends with.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
/// How much is written at once.
const CHUNK: usize = 1 << 20;

/// Makes a swap file of this size. Nobody but the superuser reads it: memory of every program goes there.
pub(super) fn make(path: &Path, mib: u64) -> io::Result<()> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let made = fill(&mut file, mib).and_then(|()| header(&mut file, mib)).and_then(|()| file.sync_all());
    if made.is_err() {
        // Half of one would only take room.
        let _ = std::fs::remove_file(path);
    }
    made
}

/// The kernel refuses a file with holes, so every block is written; not every file system can reserve them instead.
fn fill(file: &mut File, mib: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK];
    (0..mib).try_for_each(|_| file.write_all(&zeros))
}

fn header(file: &mut File, mib: u64) -> io::Result<()> {
    let pages = mib * (CHUNK as u64) / PAGE;
    let last = u32::try_from(pages - 1).map_err(|_| io::Error::other("a swap file has fewer than 2^32 pages"))?;
    file.seek(SeekFrom::Start(HEADER))?;
    // Version, number of the last page, no bad pages; in the machine's own order of bytes.
    for word in [1, last, 0] {
        file.write_all(&u32::to_ne_bytes(word))?;
    }
    file.seek(SeekFrom::Start(PAGE - MAGIC.len() as u64))?;
    file.write_all(MAGIC)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_swap_file_has_the_header_that_the_kernel_looks_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("swap");
        std::fs::write(&path, "an old one").expect("written");
        make(&path, 2).expect("made");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(bytes.len(), 2 << 20);
        assert_eq!(&bytes[4086..4096], b"SWAPSPACE2");
        assert_eq!(bytes[1024..1032], [1_u32.to_ne_bytes(), 511_u32.to_ne_bytes()].concat());
        assert_eq!(std::fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_made_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(make(&folder.path().join("no/such/folder"), 1).is_err());
    }
}
