//! The blocks of a folder.

use super::bytes::{put_u16, put_u32};
use super::checksum::crc32c;
use super::geometry::BLOCK;

/// Bytes of the checksum at the end of a block.
const TAIL: usize = 12;
const ROOM: usize = BLOCK as usize - TAIL;
/// Blocks of `lost+found`, so that a repair needs no free block.
const LOST_AND_FOUND: usize = 4;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name<'t> {
    pub(super) text: &'t str,
    pub(super) inode: u32,
    /// The file type of the format.
    pub(super) kind: u8,
}

/// The number of blocks for names, some of them free, so that a new name does not move what follows.
pub(super) fn blocks<'t>(names: impl Iterator<Item = &'t str>) -> u64 {
    let (mut blocks, mut used) = (1, 24);
    for name in names {
        if used + size(name) > ROOM {
            (blocks, used) = (blocks + 1, 0);
        }
        used += size(name);
    }
    blocks + blocks / 4
}

/// The number of blocks of `lost+found`.
pub(super) fn lost_and_found() -> u64 {
    LOST_AND_FOUND as u64
}

/// The content of a folder with a number of blocks. The seed is that of the inode.
pub(super) fn content(own: u32, parent: u32, names: &[Name<'_>], blocks: u64, seed: u32) -> Vec<u8> {
    let mut all = vec![Name { text: ".", inode: own, kind: 2 }, Name { text: "..", inode: parent, kind: 2 }];
    all.extend_from_slice(names);
    let mut bytes = vec![0; (blocks * BLOCK) as usize];
    let mut rest = &all[..];
    for block in bytes.chunks_mut(BLOCK as usize) {
        let mut used = 0;
        let fitting = rest.iter().take_while(|name| {
            used += size(name.text);
            used <= ROOM
        });
        let (here, later) = rest.split_at(fitting.count());
        fill(block, here, seed);
        rest = later;
    }
    bytes
}

fn fill(block: &mut [u8], names: &[Name<'_>], seed: u32) {
    let mut at = 0;
    for (index, name) in names.iter().enumerate() {
        let length = if index + 1 == names.len() { ROOM - at } else { size(name.text) };
        put_u32(block, at, name.inode);
        put_u16(block, at + 4, length as u16);
        block[at + 6] = name.text.len() as u8;
        block[at + 7] = name.kind;
        block[at + 8..at + 8 + name.text.len()].copy_from_slice(name.text.as_bytes());
        at += length;
    }
    if names.is_empty() {
        put_u16(block, 4, ROOM as u16);
    }
    put_u16(block, ROOM + 4, TAIL as u16);
    block[ROOM + 7] = 0xde;
    let sum = crc32c(seed, &block[..ROOM]);
    put_u32(block, ROOM + 8, sum);
}

fn size(name: &str) -> usize {
    (8 + name.len()).next_multiple_of(4)
}
