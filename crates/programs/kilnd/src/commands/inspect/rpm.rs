//! A reader for rpm's `SQLite` database, as much of the format as one table needs. Read-only, bounded, and without executing rpm, which would
//! lock and write. Changes that are only in the journal are not seen.

use std::collections::BTreeMap;

/// Paths of the database in newer and older distributions.
pub(super) const PATHS: [&str; 2] = ["/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite"];

const MAGIC: &[u8] = b"SQLite format 3\0";
const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;
/// The page of the schema table, after the file header.
const SCHEMA: usize = 1;
const FILE_HEAD: usize = 100;
/// Depth limit of a tree.
const DEEPEST: usize = 20;
/// Signing keys, which rpm lists like packages.
const SIGNING_KEY: &str = "gpg-pubkey";

const NAME: u32 = 1000;
const VERSION: u32 = 1001;
const RELEASE: u32 = 1002;

/// Packages with version and release; none if the file is invalid.
pub(super) fn packages(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let file = File::open(bytes)?;
    let mut tables = Vec::new();
    file.walk(SCHEMA, 0, &mut tables)?;
    let table = tables.iter().find_map(|record| {
        let fields = fields(record)?;
        let named = fields.first()? == b"table" && fields.get(1)? == b"Packages";
        named.then(|| fields.get(3).map(|root| number(root)))?
    })?;
    let mut rows = Vec::new();
    file.walk(usize::try_from(table).ok()?, 0, &mut rows)?;
    let mut all = BTreeMap::new();
    for row in rows {
        let header = *fields(&row)?.get(1)?;
        let (name, version, release) = (text(header, NAME)?, text(header, VERSION)?, text(header, RELEASE)?);
        if name != SIGNING_KEY {
            all.insert(name, format!("{version}-{release}"));
        }
    }
    Some(all)
}

struct File<'d> {
    bytes: &'d [u8],
    page_size: usize,
    usable: usize,
}

impl<'d> File<'d> {
    fn open(bytes: &'d [u8]) -> Option<Self> {
        let page_size = match number(bytes.strip_prefix(MAGIC)?.get(..2)?) {
            1 => 65_536,
            size => usize::try_from(size).ok()?,
        };
        let usable = page_size.checked_sub(usize::from(*bytes.get(20)?))?;
        (page_size.is_power_of_two() && usable >= 480).then_some(Self { bytes, page_size, usable })
    }

    fn page(&self, number: usize) -> Option<&'d [u8]> {
        let start = number.checked_sub(1)?.checked_mul(self.page_size)?;
        self.bytes.get(start..start.checked_add(self.page_size)?)
    }

    /// Collects the records of a table in order.
    fn walk(&self, page: usize, depth: usize, into: &mut Vec<Vec<u8>>) -> Option<()> {
        // Also ends loops between pages.
        if depth > DEEPEST || into.len() > self.bytes.len() {
            return None;
        }
        let bytes = self.page(page)?;
        let head = if page == SCHEMA { FILE_HEAD } else { 0 };
        let kind = *bytes.get(head)?;
        let cells = usize::try_from(number(bytes.get(head + 3..head + 5)?)).ok()?;
        let pointers = head + if kind == INTERIOR { 12 } else { 8 };
        for cell in 0..cells {
            let at = pointers + cell * 2;
            let cell = bytes.get(usize::try_from(number(bytes.get(at..at + 2)?)).ok()?..)?;
            match kind {
                LEAF => into.push(self.record(cell)?),
                INTERIOR => self.walk(usize::try_from(number(cell.get(..4)?)).ok()?, depth + 1, into)?,
                _ => return None,
            }
        }
        if kind == INTERIOR {
            self.walk(usize::try_from(number(bytes.get(head + 8..head + 12)?)).ok()?, depth + 1, into)?;
        }
        Some(())
    }

    /// The record of a cell, including its overflow pages.
    fn record(&self, cell: &[u8]) -> Option<Vec<u8>> {
        let (size, cell) = varint(cell)?;
        let (_row, cell) = varint(cell)?;
        let size = usize::try_from(size).ok().filter(|size| *size <= self.bytes.len())?;
        let most = self.usable - 35;
        if size <= most {
            return cell.get(..size).map(<[u8]>::to_vec);
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let wanted = least + (size - least) % (self.usable - 4);
        let local = if wanted <= most { wanted } else { least };
        let mut record = cell.get(..local)?.to_vec();
        let mut next = usize::try_from(number(cell.get(local..local + 4)?)).ok()?;
        while record.len() < size {
            let page = self.page(next)?;
            let part = (size - record.len()).min(self.usable - 4);
            record.extend_from_slice(page.get(4..4 + part)?);
            next = usize::try_from(number(&page[..4])).ok()?;
        }
        Some(record)
    }
}

/// The fields of a record as bytes; empty for null and floating point.
fn fields(record: &[u8]) -> Option<Vec<&[u8]>> {
    let (head, _) = varint(record)?;
    let head = usize::try_from(head).ok()?;
    let (mut kinds, mut body) = (record.get(..head)?, record.get(head..)?);
    kinds = varint(kinds)?.1;
    let mut all = Vec::new();
    while !kinds.is_empty() {
        let (kind, rest) = varint(kinds)?;
        kinds = rest;
        let size = match kind {
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            12.. => (kind - 12) / 2,
            _ => 0,
        };
        let (field, after) = body.split_at_checked(usize::try_from(size).ok()?)?;
        all.push(field);
        body = after;
    }
    Some(all)
}

/// A string of a package header.
fn text(header: &[u8], tag: u32) -> Option<String> {
    let count = usize::try_from(number(header.get(..4)?)).ok()?;
    let data = header.get(8 + count.checked_mul(16)?..)?;
    let entries = header.get(8..)?.chunks_exact(16).take(count);
    let entry = entries.into_iter().find(|entry| number(&entry[..4]) == u64::from(tag))?;
    let at = usize::try_from(number(&entry[8..12])).ok()?;
    let text = data.get(at..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// A big-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A variable-length integer of `SQLite`, and the rest.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        if at == 8 {
            return Some((number << 8 | u64::from(*byte), &bytes[9..]));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `SQLite`: 40 packages on pages of 512 bytes, with a tree and overflow pages.
    const DATABASE: &[u8] = include_bytes!("rpmdb.sqlite");

    #[test]
    fn packages_are_read_from_a_tree() {
        let all = packages(DATABASE).expect("a database");
        assert_eq!(all.len(), 40);
        assert_eq!(all["package-07"], "1.7.0-7.azl3");
        assert_eq!(all["kernel"], "6.6.57.1-1.azl3", "a record with overflow pages");
        assert!(!all.contains_key(SIGNING_KEY));
    }

    #[test]
    fn corrupt_database_is_none() {
        assert_eq!(packages(b"SQLite format 3\0"), None);
        assert_eq!(packages(&DATABASE[..2048]), None);
        for at in (0..DATABASE.len()).step_by(7) {
            let mut broken = DATABASE.to_vec();
            broken[at] ^= 0xff;
            // Any result is fine, but it must end.
            let _ = packages(&broken);
        }
    }
}
