//! Extended attributes: in the inode if they fit, otherwise in a block.

use std::collections::BTreeMap;

use super::bytes::{put_u16, put_u32};
use super::checksum::crc32c;
use super::geometry::{BLOCK, INODE};

const MAGIC: u32 = 0xea02_0000;
/// Where attributes in an inode start: after the first 128 bytes and the 32 additional ones.
const IN_INODE: usize = 160;
const BLOCK_HEADER: usize = 32;
/// Offset of the checksum in the header of a block.
const CHECKSUM: usize = 16;

/// An attribute as the file system stores it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::disk) struct Stored {
    index: u8,
    length: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// None if the file system cannot store the attribute.
pub(in crate::disk) fn stored(name: &str, value: &[u8]) -> Option<Stored> {
    let (index, rest, value) = match name {
        "system.posix_acl_access" => (2, "", acl(value)?),
        "system.posix_acl_default" => (3, "", acl(value)?),
        _ => {
            let (class, rest) = name.split_once('.')?;
            let index = match class {
                "user" => 1,
                "trusted" => 4,
                "security" => 6,
                _ => return None,
            };
            (index, rest, value.to_vec())
        }
    };
    let is_named = !rest.is_empty() || matches!(index, 2 | 3);
    (is_named && rest.len() <= 255 && value.len() < BLOCK as usize / 2).then(|| Stored {
        index,
        length: rest.len(),
        name: rest.as_bytes().to_vec(),
        value,
    })
}

/// An access control list as the file system stores it: entries of the owner, the group, the mask and of others have no id.
fn acl(value: &[u8]) -> Option<Vec<u8>> {
    let entries = value.strip_prefix(&2_u32.to_le_bytes())?;
    let mut bytes = 1_u32.to_le_bytes().to_vec();
    for entry in entries.chunks(8) {
        let (tag, with_id) = (u16::from_le_bytes([*entry.first()?, *entry.get(1)?]), entry.get(..8)?);
        let kept = match tag {
            0x01 | 0x04 | 0x10 | 0x20 => 4,
            0x02 | 0x08 => 8,
            _ => return None,
        };
        bytes.extend(&with_id[..kept]);
    }
    Some(bytes)
}

/// The attributes of an inode, in the order of the format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<Stored>);

impl Attributes {
    pub(super) fn new(extended: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut all: Vec<Stored> = extended.iter().filter_map(|(name, value)| stored(name, value)).collect();
        all.sort();
        Self(all)
    }

    fn size(&self) -> usize {
        self.0.iter().map(|attribute| entry_size(attribute) + padded(attribute.value.len())).sum::<usize>() + 4
    }

    /// Whether they need a separate block.
    pub(super) fn needs_block(&self) -> bool {
        !self.0.is_empty() && self.size() > INODE - IN_INODE - 4
    }

    /// Whether a block is large enough.
    pub(super) fn fits_block(&self) -> bool {
        self.size() <= BLOCK as usize - BLOCK_HEADER
    }

    /// Writes them into an inode.
    pub(super) fn put_in_inode(&self, inode: &mut [u8]) {
        if !self.0.is_empty() && !self.needs_block() {
            put_u32(inode, IN_INODE, MAGIC);
            self.put(&mut inode[IN_INODE + 4..], 0);
        }
    }

    /// The content of their block.
    pub(super) fn block(&self, number: u64, seed: u32) -> Vec<u8> {
        let mut block = vec![0; BLOCK as usize];
        put_u32(&mut block, 0, MAGIC);
        // References, blocks.
        put_u32(&mut block, 4, 1);
        put_u32(&mut block, 8, 1);
        let hash = self.put(&mut block, BLOCK_HEADER);
        put_u32(&mut block, 12, hash);
        let sum = crc32c(crc32c(seed, &number.to_le_bytes()), &block);
        put_u32(&mut block, CHECKSUM, sum);
        block
    }

    /// Writes the entries from `start` on and the values from the end backwards. Returns the hash of all.
    fn put(&self, area: &mut [u8], start: usize) -> u32 {
        let (mut entry, mut end, mut all) = (start, area.len(), 0_u32);
        for attribute in &self.0 {
            let value = &attribute.value;
            end -= padded(value.len());
            area[end..end + value.len()].copy_from_slice(value);
            area[entry] = attribute.length as u8;
            area[entry + 1] = attribute.index;
            put_u16(area, entry + 2, if value.is_empty() { 0 } else { end as u16 });
            put_u32(area, entry + 8, value.len() as u32);
            let hash = hash(attribute);
            put_u32(area, entry + 12, hash);
            area[entry + 16..entry + 16 + attribute.length].copy_from_slice(&attribute.name);
            entry += entry_size(attribute);
            all = all.rotate_left(16) ^ hash;
        }
        all
    }
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn entry_size(attribute: &Stored) -> usize {
    padded(16 + attribute.length)
}

fn hash(attribute: &Stored) -> u32 {
    let name = attribute.name.iter().fold(0_u32, |hash, byte| hash.rotate_left(5) ^ u32::from(*byte));
    attribute.value.chunks(4).fold(name, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}
