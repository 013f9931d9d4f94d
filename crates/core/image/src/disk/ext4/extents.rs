//! Extents: which blocks of the disk hold a file.

use std::ops::Range;

use super::bytes::{put_u16, put_u32, words};
use super::checksum::crc32c;
use super::geometry::BLOCK;

/// Extents that fit into an inode.
const IN_INODE: usize = 4;
/// Extents that fit into a block, in front of its checksum.
const IN_BLOCK: usize = (BLOCK as usize - 12 - 4) / 12;
/// Blocks of one extent.
const LONGEST: u64 = 1 << 15;

/// Part of a file that is contiguous on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    logical: u32,
    length: u16,
    block: u64,
}

/// The extents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extents(Vec<Extent>);

impl Extents {
    pub(super) fn new(runs: &[Range<u64>]) -> Self {
        let mut extents = Vec::new();
        let mut logical = 0;
        for run in runs {
            let mut block = run.start;
            while block < run.end {
                let length = (run.end - block).min(LONGEST);
                extents.push(Extent { logical, length: length as u16, block });
                logical += length as u32;
                block += length;
            }
        }
        Self(extents)
    }

    /// The number of blocks for extents that do not fit into the inode.
    pub(super) fn blocks(&self) -> usize {
        if self.0.len() <= IN_INODE { 0 } else { self.0.len().div_ceil(IN_BLOCK) }
    }

    /// Whether the inode has room for the references to those blocks.
    pub(super) fn fit(&self) -> bool {
        self.blocks() <= IN_INODE
    }

    /// The 60 bytes in the inode, if the further extents are in these blocks.
    pub(super) fn in_inode(&self, blocks: &[u64]) -> [u8; 60] {
        let mut bytes = [0; 60];
        if blocks.is_empty() {
            put(&mut bytes, &self.0, IN_INODE);
            return bytes;
        }
        header(&mut bytes, blocks.len(), IN_INODE, 1);
        for (index, (block, extents)) in blocks.iter().zip(self.0.chunks(IN_BLOCK)).enumerate() {
            let (low, high) = words(*block);
            let at = 12 + 12 * index;
            put_u32(&mut bytes, at, extents[0].logical);
            put_u32(&mut bytes, at + 4, low);
            put_u16(&mut bytes, at + 8, high as u16);
        }
        bytes
    }

    /// The content of the blocks with further extents. The seed is that of the inode.
    pub(super) fn in_blocks(&self, seed: u32) -> Vec<Vec<u8>> {
        if self.blocks() == 0 {
            return Vec::new();
        }
        let block = |extents: &[Extent]| {
            let mut block = vec![0; BLOCK as usize];
            put(&mut block, extents, IN_BLOCK);
            let end = 12 + 12 * IN_BLOCK;
            let sum = crc32c(seed, &block[..end]);
            put_u32(&mut block, end, sum);
            block
        };
        self.0.chunks(IN_BLOCK).map(block).collect()
    }
}

fn header(bytes: &mut [u8], entries: usize, most: usize, depth: u16) {
    put_u16(bytes, 0, 0xf30a);
    put_u16(bytes, 2, entries as u16);
    put_u16(bytes, 4, most as u16);
    put_u16(bytes, 6, depth);
}

fn put(bytes: &mut [u8], extents: &[Extent], most: usize) {
    header(bytes, extents.len(), most, 0);
    for (index, extent) in extents.iter().enumerate() {
        let (low, high) = words(extent.block);
        let at = 12 + 12 * index;
        put_u32(bytes, at, extent.logical);
        put_u16(bytes, at + 4, extent.length);
        put_u16(bytes, at + 6, high as u16);
        put_u32(bytes, at + 8, low);
    }
}
