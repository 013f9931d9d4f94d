//! Creates swap files without `mkswap`.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The page size of all supported architectures.
const PAGE: u64 = 4096;
/// The offset of the header; the space before it is for a boot loader.
const HEADER: u64 = 1024;
/// At the end of the first page.
const MAGIC: &[u8; 10] = b"SWAPSPACE2";
/// The size of a write.
const CHUNK: usize = 1 << 20;

/// Creates a swap file and returns it. Only root may read it, because it contains memory of all programs.
pub(super) fn make(path: &Path, mib: u64) -> io::Result<File> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let made = fill(&mut file, mib).and_then(|()| header(&mut file, mib)).and_then(|()| file.sync_all());
    if made.is_err() {
        // An incomplete file would only waste space.
        let _ = std::fs::remove_file(path);
    }
    made.map(|()| file)
}

/// Writes every block, because the kernel rejects files with holes and not every file system supports `fallocate`.
fn fill(file: &mut File, mib: u64) -> io::Result<()> {
    let zeros = vec![0; CHUNK];
    (0..mib).try_for_each(|_| file.write_all(&zeros))
}

fn header(file: &mut File, mib: u64) -> io::Result<()> {
    let pages = mib * (CHUNK as u64) / PAGE;
    let last =
        u32::try_from(pages - 1).map_err(|_| io::Error::other("too large: a swap file has fewer than 2^32 pages"))?;
    file.seek(SeekFrom::Start(HEADER))?;
    // Version, number of the last page, number of bad pages; in native byte order.
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
    fn swap_file_has_a_valid_header() {
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
    fn failure_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(make(&folder.path().join("no/such/folder"), 1).is_err());
    }
}
