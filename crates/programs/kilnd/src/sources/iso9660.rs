//! Reads one file from the root folder of an ISO 9660 device without mounting it: loading the kernel driver and mounting takes longer during
//! a boot than everything else.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: usize = 2048;
/// The sector of the first volume descriptor.
const FIRST_DESCRIPTOR: u64 = 16;
/// Limit of volume descriptors; a terminator ends the list.
const DESCRIPTORS: u64 = 16;
/// The root folder of provisioning media has a handful of entries.
const LARGEST_FOLDER: u64 = 64 << 10;

/// First sector and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    sector: u32,
    length: u32,
}

/// The file with one of these names, case-insensitive; none if the device is not ISO 9660 or has no such file.
pub(crate) fn file(media: &mut (impl Read + Seek), names: &[&str], largest: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(top) = root_folder(media)? else { return Ok(None) };
    let folder = read(media, top, LARGEST_FOLDER)?;
    match find(&folder, names) {
        Some(extent) => read(media, extent, largest).map(Some),
        None => Ok(None),
    }
}

fn root_folder(media: &mut (impl Read + Seek)) -> io::Result<Option<Extent>> {
    let mut sector = [0; SECTOR];
    for number in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + DESCRIPTORS {
        media.seek(SeekFrom::Start(number * SECTOR as u64))?;
        match media.read_exact(&mut sector) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        match (sector[0], &sector[1..6]) {
            // The primary volume; the record of its root folder is at offset 156.
            (1, b"CD001") => return Ok(extent(&sector[156..190])),
            // Set terminator.
            (255, b"CD001") => return Ok(None),
            (_, b"CD001") => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The extent in a directory record. Numbers are stored in both byte orders, little endian first.
fn extent(record: &[u8]) -> Option<Extent> {
    let number = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    Some(Extent { sector: number(2)?, length: number(10)? })
}

fn find(folder: &[u8], names: &[&str]) -> Option<Extent> {
    let mut at = 0;
    while at < folder.len() {
        let length = usize::from(folder[at]);
        if length == 0 {
            // Records do not cross sectors.
            at = (at / SECTOR + 1) * SECTOR;
            continue;
        }
        let record = folder.get(at..at + length)?;
        let name = record.get(33..33 + usize::from(*record.get(32)?))?;
        // `NAME.EXT;1` includes a version number.
        let name = name.split(|byte| *byte == b';').next().unwrap_or(name);
        if names.iter().any(|wanted| wanted.as_bytes().eq_ignore_ascii_case(name)) {
            return extent(record);
        }
        at += length;
    }
    None
}

fn read(media: &mut (impl Read + Seek), extent: Extent, largest: u64) -> io::Result<Vec<u8>> {
    let length = u64::from(extent.length);
    if length > largest {
        let message = format!("{length} bytes, more than the limit of {largest} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    media.seek(SeekFrom::Start(u64::from(extent.sector) * SECTOR as u64))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    media.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn record(name: &str, sector: u32, length: usize) -> Vec<u8> {
        let size = (33 + name.len()).next_multiple_of(2);
        let mut record = vec![0; size];
        record[0] = u8::try_from(size).unwrap();
        record[2..6].copy_from_slice(&sector.to_le_bytes());
        record[10..14].copy_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
        record[32] = u8::try_from(name.len()).unwrap();
        record[33..33 + name.len()].copy_from_slice(name.as_bytes());
        record
    }

    /// A device with a supplementary descriptor before the primary one, and a root folder of two sectors.
    fn media(name: &str, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 22 * SECTOR];
        for (sector, kind) in [(16, 2), (17, 1), (18, 255)] {
            bytes[sector * SECTOR] = kind;
            bytes[sector * SECTOR + 1..sector * SECTOR + 6].copy_from_slice(b"CD001");
        }
        let top = record("\0", 19, 2 * SECTOR);
        bytes[17 * SECTOR + 156..17 * SECTOR + 156 + top.len()].copy_from_slice(&top);
        let first = [record("\0", 19, SECTOR), record("\u{1}", 19, SECTOR), record("README.;1", 21, 1)].concat();
        bytes[19 * SECTOR..19 * SECTOR + first.len()].copy_from_slice(&first);
        let second = record(name, 21, content.len());
        bytes[20 * SECTOR..20 * SECTOR + second.len()].copy_from_slice(&second);
        bytes[21 * SECTOR..21 * SECTOR + content.len()].copy_from_slice(content);
        bytes
    }

    fn found(bytes: &[u8], largest: u64) -> io::Result<Option<Vec<u8>>> {
        file(&mut Cursor::new(bytes), &["ovf-env.xml", "OVF_ENV.XML"], largest)
    }

    #[test]
    fn file_is_found_by_either_name() {
        for name in ["OVF_ENV.XML;1", "ovf-env.xml"] {
            assert_eq!(found(&media(name, b"<x/>"), 99).unwrap().as_deref(), Some(&b"<x/>"[..]), "{name}");
        }
        assert_eq!(found(&media("OTHER.XML;1", b"<x/>"), 99).unwrap(), None);
    }

    #[test]
    fn other_devices_have_no_file() {
        assert_eq!(found(b"", 99).unwrap(), None);
        assert_eq!(found(&vec![0; 40 * SECTOR], 99).unwrap(), None);
    }

    #[test]
    fn oversized_or_truncated_file_is_an_error() {
        assert_eq!(found(&media("ovf-env.xml", b"<x/>"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let mut bytes = media("ovf-env.xml", b"<x/>");
        bytes.truncate(21 * SECTOR + 2);
        assert_eq!(found(&bytes, 99).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn corrupt_bytes_do_not_panic() {
        let bytes = media("ovf-env.xml", b"<x/>");
        for at in (16 * SECTOR..bytes.len()).step_by(3) {
            for value in [0, 1, 33, 255] {
                let mut broken = bytes.clone();
                broken[at] = value;
                let _ = found(&broken, 99);
            }
        }
    }
}
