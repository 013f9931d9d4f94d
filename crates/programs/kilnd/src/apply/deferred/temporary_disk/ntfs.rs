//! Reads the label and the names in the root folder of an NTFS, and nothing else.
//!
//! cloud-init mounts the disk to count its files. Kernels of nodes often have no NTFS driver, and a mount writes to the disk, so the few
//! structures that are needed are read here. Whatever is unusual is an error: the caller then leaves the disk alone.

/// A limit for records and index blocks, whose usual sizes are 1 and 4 KiB.
const MAX_RECORD: u64 = 64 << 10;
/// A limit for the blocks of the root folder's index. A folder with more names is certainly not empty.
const MAX_BLOCKS: u64 = 256;
/// Numbers of records in the master file table: the volume and its root folder.
const VOLUME: u64 = 3;
const ROOT: u64 = 5;
/// Files with lower record numbers are NTFS's own.
const FIRST_USER_RECORD: u64 = 24;
/// The second name that a file has for DOS.
const DOS_NAME: u8 = 2;
/// Types of attributes.
const ATTRIBUTE_LIST: u32 = 0x20;
const VOLUME_NAME: u32 = 0x60;
const INDEX_ROOT: u32 = 0x90;
const INDEX_ALLOCATION: u32 = 0xa0;
const BITMAP: u32 = 0xb0;
const END: u32 = 0xffff_ffff;

/// The label of an NTFS, and the names in its root folder without those that belong to NTFS itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) label: String,
    pub(super) names: Vec<String>,
}

/// A part of an NTFS that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read its NTFS: {0}")]
pub(super) struct Unreadable(&'static str);

/// Reads bytes at an offset; none if there are fewer.
pub(super) type Read<'r> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'r;

/// Whether a disk starts with the boot sector of an NTFS.
pub(super) fn is_ntfs(read: &Read<'_>) -> bool {
    read(3, 8).is_some_and(|name| name == b"NTFS    ")
}

/// Reads an NTFS.
pub(super) fn read_volume(read: &Read<'_>) -> Result<Volume, Unreadable> {
    let disk = Disk::new(read)?;
    let volume = disk.record(VOLUME)?;
    let label = find(&volume, VOLUME_NAME)?.map(|attribute| attribute.content()).transpose()?.unwrap_or_default();
    Ok(Volume { label: utf16(label), names: disk.names()? })
}

/// The geometry of an NTFS.
struct Disk<'r> {
    read: &'r Read<'r>,
    sector: usize,
    cluster: u64,
    table: u64,
    record: usize,
    block: usize,
}

impl<'r> Disk<'r> {
    fn new(read: &'r Read<'r>) -> Result<Self, Unreadable> {
        let bad = Unreadable("invalid boot sector");
        let boot = read(0, 512).ok_or(bad)?;
        let sector = u64::from(u16_at(&boot, 0x0b).ok_or(bad)?);
        let per_cluster = u64::from(boot[0x0d]);
        let cluster = sector.checked_mul(per_cluster).ok_or(bad)?;
        let is_plausible = [512, 1024, 2048, 4096].contains(&sector) && per_cluster.is_power_of_two();
        // Negative numbers are powers of two in bytes, others are clusters.
        let size = |byte: u8| match byte.cast_signed() {
            shift @ -16..=-9 => Some(1_u64 << -shift),
            count @ 1.. => cluster.checked_mul(u64::from(count.unsigned_abs())),
            _ => None,
        };
        let size = |at: usize| size(boot[at]).filter(|size| *size % sector == 0 && *size <= MAX_RECORD).ok_or(bad);
        if !is_plausible {
            return Err(bad);
        }
        let table = u64_at(&boot, 0x30).and_then(|table| table.checked_mul(cluster)).ok_or(bad)?;
        let as_usize = |size: u64| usize::try_from(size).map_err(|_| bad);
        Ok(Self {
            read,
            sector: as_usize(sector)?,
            cluster,
            table,
            record: as_usize(size(0x40)?)?,
            block: as_usize(size(0x44)?)?,
        })
    }

    /// A record of the master file table. The first records are never fragmented.
    fn record(&self, number: u64) -> Result<Vec<u8>, Unreadable> {
        let bad = Unreadable("invalid record in the master file table");
        let at = u64::try_from(self.record).ok().and_then(|size| size.checked_mul(number)).ok_or(bad)?;
        let bytes = self.table.checked_add(at).and_then(|at| (self.read)(at, self.record)).ok_or(bad)?;
        self.restored(bytes, *b"FILE").ok_or(bad)
    }

    /// Checks and removes the numbers with which NTFS detects sectors that were not written.
    fn restored(&self, mut bytes: Vec<u8>, magic: [u8; 4]) -> Option<Vec<u8>> {
        if bytes.get(..4)? != magic.as_slice() {
            return None;
        }
        let at = usize::from(u16_at(&bytes, 4)?);
        let count = usize::from(u16_at(&bytes, 6)?);
        let number = bytes.get(at..at + 2)?.to_vec();
        if count.checked_sub(1)? != bytes.len() / self.sector {
            return None;
        }
        for index in 1..count {
            let saved = bytes.get(at + 2 * index..at + 2 * index + 2)?.to_vec();
            let end = index * self.sector;
            let place = bytes.get_mut(end - 2..end)?;
            if place != number {
                return None;
            }
            place.copy_from_slice(&saved);
        }
        Some(bytes)
    }

    /// The names in the root folder.
    fn names(&self) -> Result<Vec<String>, Unreadable> {
        let record = self.record(ROOT)?;
        if find(&record, ATTRIBUTE_LIST)?.is_some() {
            return Err(Unreadable("the root folder is fragmented"));
        }
        let index = find(&record, INDEX_ROOT)?.ok_or(Unreadable("no root folder"))?.content()?;
        let mut names = Vec::new();
        entries(index, 16, &mut names)?;
        let Some(allocation) = find(&record, INDEX_ALLOCATION)? else { return Ok(names) };
        let used = find(&record, BITMAP)?.ok_or(Unreadable("the root folder has no bitmap"))?.content()?;
        for (number, at) in self.blocks(&allocation)?.into_iter().enumerate() {
            // Unused blocks have the names of deleted files.
            if used.get(number / 8).is_none_or(|byte| byte >> (number % 8) & 1 == 0) {
                continue;
            }
            let bad = Unreadable("invalid block of the root folder");
            let block = (self.read)(at, self.block).and_then(|bytes| self.restored(bytes, *b"INDX")).ok_or(bad)?;
            entries(&block, 0x18, &mut names)?;
        }
        Ok(names)
    }

    /// The offsets of the blocks of an attribute that is not in its record.
    fn blocks(&self, attribute: &Attribute<'_>) -> Result<Vec<u64>, Unreadable> {
        let bad = Unreadable("invalid list of blocks");
        let block = u64::try_from(self.block).map_err(|_| bad)?;
        let mut offsets = Vec::new();
        for (first, clusters) in attribute.runs().ok_or(bad)? {
            let bytes = clusters.checked_mul(self.cluster).ok_or(bad)?;
            let start = first.checked_mul(self.cluster).ok_or(bad)?;
            // A block may not be split between two runs.
            if bytes % block != 0 || bytes / block > MAX_BLOCKS {
                return Err(bad);
            }
            offsets.extend((0..bytes / block).map(|index| start.saturating_add(index * block)));
        }
        Ok(offsets)
    }
}

/// An attribute of a record.
struct Attribute<'b>(&'b [u8]);

impl<'b> Attribute<'b> {
    /// The content of an attribute that is in its record.
    fn content(&self) -> Result<&'b [u8], Unreadable> {
        let content = || {
            let length = usize::try_from(u32_at(self.0, 0x10)?).ok()?;
            let at = usize::from(u16_at(self.0, 0x14)?);
            if *self.0.get(8)? != 0 {
                return None;
            }
            self.0.get(at..at.checked_add(length)?)
        };
        content().ok_or(Unreadable("invalid attribute"))
    }

    /// First cluster and number of clusters of each run.
    fn runs(&self) -> Option<Vec<(u64, u64)>> {
        if *self.0.get(8)? == 0 {
            return None;
        }
        let mut rest = self.0.get(usize::from(u16_at(self.0, 0x20)?)..)?;
        let (mut runs, mut first) = (Vec::new(), 0_i64);
        loop {
            let (head, after) = rest.split_first()?;
            if *head == 0 {
                return Some(runs);
            }
            let (length, after) = after.split_at_checked(usize::from(head & 15))?;
            let (offset, after) = after.split_at_checked(usize::from(head >> 4))?;
            first = first.checked_add(signed(offset)?)?;
            runs.push((u64::try_from(first).ok()?, u64::try_from(signed(length)?).ok()?));
            rest = after;
        }
    }
}

/// The first attribute of a type.
fn find(record: &[u8], kind: u32) -> Result<Option<Attribute<'_>>, Unreadable> {
    let bad = Unreadable("invalid attribute");
    let mut at = usize::from(u16_at(record, 0x14).ok_or(bad)?);
    loop {
        let found = u32_at(record, at).ok_or(bad)?;
        if found == END {
            return Ok(None);
        }
        let length = usize::try_from(u32_at(record, at + 4).ok_or(bad)?).map_err(|_| bad)?;
        let bytes = at.checked_add(length).filter(|_| length >= 16).and_then(|end| record.get(at..end)).ok_or(bad)?;
        if found == kind {
            return Ok(Some(Attribute(bytes)));
        }
        at += length;
    }
}

/// Adds the names of an index, whose header is at `header`.
fn entries(index: &[u8], header: usize, names: &mut Vec<String>) -> Result<(), Unreadable> {
    let bad = Unreadable("invalid entry of the root folder");
    let mut at = header + usize::try_from(u32_at(index, header).ok_or(bad)?).map_err(|_| bad)?;
    loop {
        let length = usize::from(u16_at(index, at + 8).ok_or(bad)?);
        let flags = u16_at(index, at + 12).ok_or(bad)?;
        if flags & 2 != 0 {
            return Ok(());
        }
        let entry = index.get(at..at + length).filter(|entry| entry.len() >= 0x52).ok_or(bad)?;
        // The upper 16 bits count the uses of a record.
        let record = u64_at(entry, 0).ok_or(bad)? & 0xffff_ffff_ffff;
        let (characters, space) = (usize::from(entry[0x50]), entry[0x51]);
        let name = entry.get(0x52..0x52 + 2 * characters).ok_or(bad)?;
        if record >= FIRST_USER_RECORD && space != DOS_NAME {
            names.push(utf16(name));
        }
        at += length;
    }
}

fn utf16(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

/// A little-endian signed number of up to eight bytes.
fn signed(bytes: &[u8]) -> Option<i64> {
    let last = *bytes.last()?;
    let mut all = [if last >= 0x80 { 0xff } else { 0 }; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signed_numbers_have_any_length() {
        assert_eq!(signed(&[0xff]), Some(-1));
        assert_eq!(signed(&[0x7f]), Some(127));
        assert_eq!(signed(&[0, 1]), Some(256));
        assert_eq!(signed(&[]), None);
        assert_eq!(signed(&[1; 9]), None);
    }

    proptest! {
        #[test]
        fn garbage_after_a_valid_name_is_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 16 << 10)) {
            let mut bytes = bytes;
            bytes[3..11].copy_from_slice(b"NTFS    ");
            // Plausible numbers, so that more than the boot sector is read.
            bytes[0x0b..0x0e].copy_from_slice(&[0, 2, 1]);
            bytes[0x30..0x38].copy_from_slice(&1_u64.to_le_bytes());
            (bytes[0x40], bytes[0x44]) = (0xf6, 0xf6);
            for record in [3, 5] {
                bytes[512 + record * 1024..][..8].copy_from_slice(b"FILE\x30\0\x03\0");
            }
            let read = |at: u64, length: usize| {
                let at = usize::try_from(at).ok()?;
                bytes.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
            };
            prop_assert!(is_ntfs(&read));
            prop_assert!(read_volume(&read).is_err());
        }
    }
}
