//! FAT32, for the partition with the boot loader. Names are short ones (8.3, upper case).

use std::collections::BTreeMap;

use super::{Content, Piece, Source};

const SECTOR: u64 = 512;
/// Sectors in front of the tables.
const RESERVED: u64 = 32;
const TABLES: u64 = 2;
/// With fewer clusters it would be FAT16.
const SMALLEST: u64 = 65_525;
const LAST: u32 = 0x0fff_ffff;
/// The first cluster, of the root folder.
const ROOT: u32 = 2;

/// Size and identity of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub size: u64,
    pub id: u32,
    /// At most 11 characters.
    pub label: String,
    /// The position of the partition on the disk, in bytes.
    pub start: u64,
    /// The time of all files: date and time as the format stores them.
    pub modified: Modified,
}

/// A date and a time in the format's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modified {
    pub date: u16,
    pub time: u16,
}

impl Modified {
    /// The format has no time before 1980 and steps of two seconds.
    pub fn new(year: u16, month: u8, day: u8, (hour, minute, second): (u8, u8, u8)) -> Self {
        let date = (year.clamp(1980, 2107) - 1980) << 9 | u16::from(month) << 5 | u16::from(day);
        Self { date, time: u16::from(hour) << 11 | u16::from(minute) << 5 | (u16::from(second) / 2) }
    }
}

/// Why a file system is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("FAT32 is possible from 33 MiB to 2 GiB in steps of 512 bytes; {0} bytes are not")]
    Size(u64),
    #[error("`{0}`: a name has up to 8 and, behind a dot, up to 3 of the characters A to Z, 0 to 9, `-` and `_`")]
    Name(String),
    #[error("`{0}` has 4 GiB or more")]
    File(String),
    #[error("the files need {need} bytes, and the file system has {room}")]
    Full { need: u64, room: u64 },
}

/// A file or a folder with its place.
struct Placed<'f, C> {
    path: String,
    content: Option<&'f Content<C>>,
    first: u32,
    clusters: u32,
}

/// A file system with these files by path. Folders are created.
pub fn write<C: Clone>(files: &BTreeMap<String, Content<C>>, options: &Options) -> Result<Vec<Piece<C>>, Error> {
    let sectors = options.size / SECTOR;
    let table = table_sectors(sectors);
    let first_data = RESERVED + TABLES * table;
    let clusters = sectors.saturating_sub(first_data);
    if !options.size.is_multiple_of(SECTOR) || clusters < SMALLEST || options.size > 1 << 31 || options.label.len() > 11
    {
        return Err(Error::Size(options.size));
    }
    let placed = place(files, clusters)?;
    let mut entries: Vec<u32> = vec![0x0fff_fff8, LAST];
    let mut pieces = Vec::new();
    let offset = |cluster: u32| (first_data + u64::from(cluster) - 2) * SECTOR;
    for one in &placed {
        let chain = (1..one.clusters).map(|next| one.first + next).chain([LAST]);
        entries.extend(chain.take(one.clusters as usize));
        match one.content {
            Some(content) if content.size > 0 => {
                let source = Source::Content { content: content.id.clone(), from: 0, length: content.size };
                pieces.push(Piece { offset: offset(one.first), source });
            }
            Some(_) => {}
            None => pieces.push(Piece::bytes(offset(one.first), folder(one, &placed, options))),
        }
    }
    let used = entries.len() as u64 - 2;
    let table_bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    for number in 0..TABLES {
        pieces.push(Piece::bytes((RESERVED + number * table) * SECTOR, table_bytes.clone()));
    }
    let boot = boot_sector(sectors, table, options);
    let info = info_sector(clusters - used, entries.len() as u32);
    // The copies are at sector 6.
    for start in [0, 6 * SECTOR] {
        pieces.push(Piece::bytes(start, [boot.clone(), info.clone()].concat()));
    }
    pieces.sort_by_key(|piece| piece.offset);
    Ok(pieces)
}

/// Sectors of one table, which has 4 bytes for each cluster.
fn table_sectors(sectors: u64) -> u64 {
    (sectors.saturating_sub(RESERVED) * 4 + 8).div_ceil(SECTOR + TABLES * 4)
}

/// Gives each folder and file its clusters, folders first.
fn place<C>(files: &BTreeMap<String, Content<C>>, room: u64) -> Result<Vec<Placed<'_, C>>, Error> {
    let mut folders: BTreeMap<String, u64> = BTreeMap::from([(String::new(), 1)]);
    for (path, content) in files {
        if content.size >= 1 << 32 {
            return Err(Error::File(path.clone()));
        }
        let mut folder = String::new();
        let parts: Vec<&str> = path.split('/').collect();
        for (index, part) in parts.iter().enumerate() {
            short_name(part).ok_or_else(|| Error::Name(path.clone()))?;
            let child = if folder.is_empty() { (*part).to_owned() } else { format!("{folder}/{part}") };
            if index + 1 == parts.len() {
                *folders.entry(folder.clone()).or_default() += 1;
            } else if !folders.contains_key(&child) {
                *folders.entry(folder.clone()).or_default() += 1;
                // `.` and `..`.
                folders.insert(child.clone(), 2);
            }
            folder = child;
        }
    }
    let mut next = u64::from(ROOT);
    let mut placed = Vec::new();
    let mut add = |path: &str, content, clusters: u64| {
        let first = if clusters == 0 { 0 } else { next as u32 };
        placed.push(Placed { path: path.to_owned(), content, first, clusters: clusters as u32 });
        next += clusters;
    };
    for (path, names) in &folders {
        add(path, None, (names * 32).div_ceil(SECTOR));
    }
    for (path, content) in files {
        add(path, Some(content), content.size.div_ceil(SECTOR));
    }
    if next - 2 > room {
        return Err(Error::Full { need: (next - 2) * SECTOR, room: room * SECTOR });
    }
    Ok(placed)
}

fn folder<C>(own: &Placed<'_, C>, all: &[Placed<'_, C>], options: &Options) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |name: [u8; 11], kind: u8, first: u32, size: u32| {
        let mut entry = [0; 32];
        entry[..11].copy_from_slice(&name);
        entry[11] = kind;
        let Modified { date, time } = options.modified;
        for (offset, value) in [(14, time), (16, date), (18, date), (22, time), (24, date)] {
            entry[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
        }
        entry[20..22].copy_from_slice(&((first >> 16) as u16).to_le_bytes());
        entry[26..28].copy_from_slice(&((first & 0xffff) as u16).to_le_bytes());
        entry[28..].copy_from_slice(&size.to_le_bytes());
        bytes.extend(entry);
    };
    let parent = |path: &str| path.rsplit_once('/').map_or(String::new(), |(parent, _)| parent.to_owned());
    if own.path.is_empty() {
        add(label(&options.label), 0x08, 0, 0);
    } else {
        add(*b".          ", 0x10, own.first, 0);
        let above = parent(&own.path);
        // The root has the number 0 here.
        let above =
            if above.is_empty() { 0 } else { all.iter().find(|one| one.path == above).map_or(0, |one| one.first) };
        add(*b"..         ", 0x10, above, 0);
    }
    for child in all.iter().filter(|one| !one.path.is_empty() && parent(&one.path) == own.path) {
        let name = child.path.rsplit('/').next().and_then(short_name).expect("checked names");
        match child.content {
            Some(content) => add(name, 0x20, child.first, content.size as u32),
            None => add(name, 0x10, child.first, 0),
        }
    }
    bytes
}

fn label(text: &str) -> [u8; 11] {
    let mut label = [b' '; 11];
    label[..text.len()].copy_from_slice(text.as_bytes());
    label
}

fn short_name(name: &str) -> Option<[u8; 11]> {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let is_plain = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    let fits = (1..=8).contains(&stem.len()) && extension.len() <= 3 && !name.ends_with('.');
    (fits && is_plain(stem) && is_plain(extension)).then(|| {
        let mut short = [b' '; 11];
        short[..stem.len()].copy_from_slice(stem.as_bytes());
        short[8..8 + extension.len()].copy_from_slice(extension.as_bytes());
        short
    })
}

fn boot_sector(sectors: u64, table: u64, options: &Options) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
    put(0, &[0xeb, 0x58, 0x90]);
    put(3, b"KILN    ");
    put(11, &(SECTOR as u16).to_le_bytes());
    // One sector per cluster.
    put(13, &[1]);
    put(14, &(RESERVED as u16).to_le_bytes());
    put(16, &[TABLES as u8]);
    put(21, &[0xf8]);
    put(24, &63_u16.to_le_bytes());
    put(26, &255_u16.to_le_bytes());
    put(28, &((options.start / SECTOR) as u32).to_le_bytes());
    put(32, &(sectors as u32).to_le_bytes());
    put(36, &(table as u32).to_le_bytes());
    put(44, &ROOT.to_le_bytes());
    // The information sector, and the copy of the boot sector.
    put(48, &1_u16.to_le_bytes());
    put(50, &6_u16.to_le_bytes());
    put(64, &[0x80, 0, 0x29]);
    put(67, &options.id.to_le_bytes());
    put(71, &label(&options.label));
    put(82, b"FAT32   ");
    put(510, &[0x55, 0xaa]);
    bytes
}

fn info_sector(free: u64, next: u32) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR as usize];
    let words = [(0, 0x4161_5252), (484, 0x6141_7272), (488, free as u32), (492, next), (508, 0xaa55_0000)];
    for (offset, value) in words {
        bytes[offset..offset + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    bytes
}
