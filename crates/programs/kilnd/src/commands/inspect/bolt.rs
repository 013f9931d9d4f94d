//! A reader for bolt databases, which containerd uses. Read-only, bounded, and without the lock: bolt never changes pages in place, so a
//! concurrent change can at worst make the file unreadable.

use std::collections::BTreeMap;

use kiln_types::hash::fnv1a_64;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const PAGE_HEAD: usize = 16;
const ELEMENT: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
/// Flag of a leaf element that is a bucket.
const BUCKET: u32 = 0x01;
/// Depth limit. Real trees have three or four levels.
const DEEPEST: usize = 32;
/// Entry limit. Real buckets have thousands of entries.
const MOST: usize = 1 << 20;

/// An invalid database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDatabase {
    #[error("not a bolt database of version {VERSION}")]
    NotBolt,
    #[error("corrupt database")]
    Broken,
    #[error("no bucket `{0}`")]
    NoBucket(&'static str),
}

/// An open database.
#[derive(Debug)]
pub struct Database<'d> {
    bytes: &'d [u8],
    page_size: usize,
    root: u64,
}

/// The values and nested buckets of a bucket.
#[derive(Debug, Default)]
struct Bucket<'d> {
    values: BTreeMap<&'d [u8], &'d [u8]>,
    buckets: BTreeMap<&'d [u8], &'d [u8]>,
}

/// The values of a bucket by their keys.
pub type Values<'d> = BTreeMap<&'d [u8], &'d [u8]>;

impl<'d> Database<'d> {
    /// Opens the bytes of a file.
    pub fn open(bytes: &'d [u8]) -> Result<Self, BadDatabase> {
        let first = meta(bytes, 0);
        // The second meta page follows the first; the page size is unknown.
        let second = [4096, 8192, 16384, 65536, 512, 1024, 2048, 32768].into_iter().find_map(|size| meta(bytes, size));
        let newest = [first, second].into_iter().flatten().max_by_key(|meta| meta.transaction);
        let meta = newest.ok_or(BadDatabase::NotBolt)?;
        Ok(Self { bytes, page_size: meta.page_size, root: meta.root })
    }

    /// The nested buckets of a bucket, with their values.
    pub fn buckets(&self, path: &[&'static str]) -> Result<Vec<(&'d [u8], Values<'d>)>, BadDatabase> {
        let bucket = self.at(path)?;
        bucket.buckets.iter().map(|(name, value)| Ok((*name, self.bucket(value)?.values))).collect()
    }

    /// The names of the nested buckets of a bucket.
    pub fn names(&self, path: &[&'static str]) -> Result<Vec<&'d [u8]>, BadDatabase> {
        Ok(self.at(path)?.buckets.into_keys().collect())
    }

    fn at(&self, path: &[&'static str]) -> Result<Bucket<'d>, BadDatabase> {
        let mut bucket = Bucket::default();
        self.walk(self.root, 0, &mut bucket)?;
        for name in path {
            let value = bucket.buckets.get(name.as_bytes()).ok_or(BadDatabase::NoBucket(name))?;
            bucket = self.bucket(value)?;
        }
        Ok(bucket)
    }

    /// A nested bucket: its root page, or an inline page in the value.
    fn bucket(&self, value: &'d [u8]) -> Result<Bucket<'d>, BadDatabase> {
        let mut bucket = Bucket::default();
        match long(value, 0)? {
            0 => self.page(value.get(16..).ok_or(BadDatabase::Broken)?, 0, &mut bucket)?,
            root => self.walk(root, 0, &mut bucket)?,
        }
        Ok(bucket)
    }

    fn walk(&self, page: u64, depth: usize, into: &mut Bucket<'d>) -> Result<(), BadDatabase> {
        let at = usize::try_from(page).ok().and_then(|page| page.checked_mul(self.page_size));
        let page = at.and_then(|at| self.bytes.get(at..)).ok_or(BadDatabase::Broken)?;
        self.page(page, depth, into)
    }

    fn page(&self, page: &'d [u8], depth: usize, into: &mut Bucket<'d>) -> Result<(), BadDatabase> {
        if depth > DEEPEST || into.values.len() + into.buckets.len() > MOST {
            return Err(BadDatabase::Broken);
        }
        let (flags, count) = (short(page, 8)?, usize::from(short(page, 10)?));
        for index in 0..count {
            let at = PAGE_HEAD + index * ELEMENT;
            let element = page.get(at..).ok_or(BadDatabase::Broken)?;
            if flags & BRANCH != 0 {
                self.walk(long(element, 8)?, depth + 1, into)?;
            } else if flags & LEAF != 0 {
                let [kind, position, key, value] = [0, 4, 8, 12].map(|at| word(element, at));
                let (position, key, value) = (size(position?)?, size(key?)?, size(value?)?);
                let end = position.checked_add(key).ok_or(BadDatabase::Broken)?;
                let name = element.get(position..end).ok_or(BadDatabase::Broken)?;
                let value = element.get(end..).and_then(|rest| rest.get(..value)).ok_or(BadDatabase::Broken)?;
                let all = if kind? & BUCKET == 0 { &mut into.values } else { &mut into.buckets };
                all.insert(name, value);
            } else {
                return Err(BadDatabase::Broken);
            }
        }
        Ok(())
    }
}

struct Meta {
    page_size: usize,
    root: u64,
    transaction: u64,
}

fn meta(bytes: &[u8], page: usize) -> Option<Meta> {
    let meta = bytes.get(page + PAGE_HEAD..page + PAGE_HEAD + 64)?;
    let is_valid =
        word(meta, 0) == Ok(MAGIC) && word(meta, 4) == Ok(VERSION) && long(meta, 56) == Ok(fnv1a_64(&meta[..56]));
    let page_size = usize::try_from(word(meta, 8).ok()?).ok()?;
    (is_valid && page_size.is_power_of_two()).then_some(())?;
    Some(Meta { page_size, root: long(meta, 16).ok()?, transaction: long(meta, 48).ok()? })
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], BadDatabase> {
    bytes.get(at..at + N).and_then(|found| found.try_into().ok()).ok_or(BadDatabase::Broken)
}

fn short(bytes: &[u8], at: usize) -> Result<u16, BadDatabase> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Result<u32, BadDatabase> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> Result<u64, BadDatabase> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

fn size(number: u32) -> Result<usize, BadDatabase> {
    usize::try_from(number).map_err(|_| BadDatabase::Broken)
}
