//! A partition table (GPT) with its copy at the end of the disk.

use super::Piece;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
const ENTRY: usize = 128;
const ENTRIES: usize = 128;
/// Sectors of all entries.
const ENTRY_SECTORS: u64 = (ENTRY * ENTRIES) as u64 / SECTOR;
/// Sectors in front of the first partition: protective record, header, entries.
const FRONT: u64 = 2 + ENTRY_SECTORS;

/// An identifier as the table stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guid([u8; 16]);

impl Guid {
    /// The partition with the boot loader.
    pub const EFI_SYSTEM: Self =
        Self::from_parts(0xc12a_7328, 0xf81f, 0x11d2, [0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b]);
    /// The root of a Linux system for x86-64.
    pub const LINUX_ROOT_AMD64: Self =
        Self::from_parts(0x4f68_bce3, 0xe8cd, 0x4db1, [0x96, 0xe7, 0xfb, 0xca, 0xf9, 0x84, 0xb7, 0x09]);
    /// The root of a Linux system for arm64.
    pub const LINUX_ROOT_ARM64: Self =
        Self::from_parts(0xb921_b045, 0x1df0, 0x41c3, [0xaf, 0x44, 0x4c, 0x6f, 0x28, 0x0d, 0x3f, 0xae]);

    /// An identifier from 16 bytes of a hash.
    pub fn from_hash(mut bytes: [u8; 16]) -> Self {
        // Version 8 is for own schemes.
        bytes[7] = (bytes[7] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    const fn from_parts(one: u32, two: u16, three: u16, four: [u8; 8]) -> Self {
        let (one, two, three) = (one.to_le_bytes(), two.to_le_bytes(), three.to_le_bytes());
        Self([
            one[0], one[1], one[2], one[3], two[0], two[1], three[0], three[1], four[0], four[1], four[2], four[3],
            four[4], four[5], four[6], four[7],
        ])
    }
}

/// A partition. Positions are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub kind: Guid,
    pub id: Guid,
    /// At most 36 characters.
    pub name: String,
    pub start: u64,
    pub size: u64,
    /// Whether the first boot makes it as large as the disk allows.
    pub grows: bool,
}

/// Why a table is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the size of a disk is a multiple of 512 bytes and has room for two tables; {0} is not possible")]
    Disk(u64),
    #[error(
        "partition `{0}` does not start and end at multiples of 512 bytes between the tables, behind the one before it"
    )]
    Place(String),
    #[error("the name `{0}` has more than 36 characters")]
    Name(String),
}

/// The two tables of a disk.
pub fn write<C>(size: u64, id: Guid, partitions: &[Partition]) -> Result<Vec<Piece<C>>, Error> {
    let sectors = size / SECTOR;
    if !size.is_multiple_of(SECTOR) || sectors <= 2 * FRONT {
        return Err(Error::Disk(size));
    }
    let (first, last) = (FRONT, sectors - FRONT);
    let mut end = first * SECTOR;
    for partition in partitions {
        let is_aligned = partition.start % SECTOR == 0 && partition.size % SECTOR == 0 && partition.size > 0;
        if !is_aligned || partition.start < end || partition.start + partition.size > (last + 1) * SECTOR {
            return Err(Error::Place(partition.name.clone()));
        }
        end = partition.start + partition.size;
    }
    let entries = entries(partitions)?;
    let header = |own: u64, other: u64, entries_at: u64| {
        let mut header = vec![0; SECTOR as usize];
        header[..8].copy_from_slice(b"EFI PART");
        put(&mut header, 8, &0x0001_0000_u32.to_le_bytes());
        put(&mut header, 12, &92_u32.to_le_bytes());
        for (offset, value) in [(24, own), (32, other), (40, first), (48, last), (72, entries_at)] {
            put(&mut header, offset, &u64::to_le_bytes(value));
        }
        put(&mut header, 56, &id.0);
        put(&mut header, 80, &(ENTRIES as u32).to_le_bytes());
        put(&mut header, 84, &(ENTRY as u32).to_le_bytes());
        put(&mut header, 88, &crc32fast::hash(&entries).to_le_bytes());
        let sum = crc32fast::hash(&header[..92]);
        put(&mut header, 16, &sum.to_le_bytes());
        header
    };
    let copy = sectors - 1;
    let front = [protective_record(sectors), header(1, copy, 2), entries.clone()].concat();
    let back = [entries.clone(), header(copy, 1, copy - ENTRY_SECTORS)].concat();
    Ok(vec![Piece::bytes(0, front), Piece::bytes((copy - ENTRY_SECTORS) * SECTOR, back)])
}

fn entries(partitions: &[Partition]) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; ENTRY * ENTRIES];
    for (partition, entry) in partitions.iter().zip(bytes.chunks_mut(ENTRY)) {
        put(entry, 0, &partition.kind.0);
        put(entry, 16, &partition.id.0);
        put(entry, 32, &(partition.start / SECTOR).to_le_bytes());
        put(entry, 40, &((partition.start + partition.size) / SECTOR - 1).to_le_bytes());
        // systemd's flag for a file system that grows.
        put(entry, 48, &(u64::from(partition.grows) << 59).to_le_bytes());
        let name: Vec<u8> = partition.name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        if name.len() > 72 {
            return Err(Error::Name(partition.name.clone()));
        }
        put(entry, 56, &name);
    }
    Ok(bytes)
}

/// A record that tells tools without GPT that the disk is in use.
fn protective_record(sectors: u64) -> Vec<u8> {
    let mut record = vec![0; SECTOR as usize];
    let covered = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
    put(&mut record, 446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    put(&mut record, 458, &covered.to_le_bytes());
    put(&mut record, 510, &[0x55, 0xaa]);
    record
}

fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    bytes[offset..offset + field.len()].copy_from_slice(field);
}
