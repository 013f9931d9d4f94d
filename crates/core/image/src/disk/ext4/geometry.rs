//! Where the parts of the file system are that do not depend on the files.

use std::ops::Range;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Blocks of a group: as many as one block has bits.
pub(super) const GROUP: u64 = 8 * BLOCK;
pub(super) const INODE: usize = 256;
/// One inode for 16 KiB.
pub(super) const INODES_PER_GROUP: u32 = 8192;
pub(super) const INODES_PER_BLOCK: u32 = BLOCK as u32 / INODE as u32;
/// Blocks of the inode table of a group.
pub(super) const TABLE_BLOCKS: u64 = (INODES_PER_GROUP / INODES_PER_BLOCK) as u64;
pub(super) const DESCRIPTOR: usize = 32;
/// Groups whose descriptors are in one block.
const DESCRIPTORS_PER_BLOCK: u64 = BLOCK / DESCRIPTOR as u64;
/// A last group with fewer blocks than this would be lost to a tool that resizes the file system.
const SMALLEST_GROUP: u64 = 256;
/// Of a file system of at least 1 GiB: 64 MiB. Of a smaller one: 4 MiB.
const JOURNAL: [u64; 2] = [1024, 16384];

/// Sizes and positions. Superblock copies and group descriptors are where the format wants them; all bitmaps, inode tables and the journal
/// are at the front, so that the rest is free for files.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) blocks: u64,
    /// Blocks with copies of the superblock or with group descriptors, sorted.
    pub(super) fixed: Vec<u64>,
    pub(super) block_bitmaps: Vec<u64>,
    pub(super) inode_bitmaps: Vec<u64>,
    pub(super) inode_tables: Vec<u64>,
    pub(super) journal: Vec<Range<u64>>,
    /// The first block for files.
    pub(super) first_free: u64,
}

impl Geometry {
    /// None if the file system is too small for its own structures.
    pub(super) fn new(blocks: u64) -> Option<Self> {
        let groups = blocks.div_ceil(GROUP);
        let last = blocks.checked_sub(groups.checked_sub(1)? * GROUP)?;
        if last < SMALLEST_GROUP || u32::try_from(blocks).is_err() {
            return None;
        }
        let mut fixed: Vec<u64> =
            (0..groups).filter(|group| has_superblock(*group)).map(|group| group * GROUP).collect();
        fixed.extend((0..groups).filter_map(descriptors_in));
        fixed.sort_unstable();
        let mut cursor = Cursor { fixed: &fixed, next: 0 };
        let mut singles = || (0..groups).map(|_| cursor.take(1)).collect::<Vec<u64>>();
        let (block_bitmaps, inode_bitmaps) = (singles(), singles());
        let inode_tables = (0..groups).map(|_| cursor.take(TABLE_BLOCKS)).collect();
        let journal_blocks = JOURNAL[usize::from(blocks >= (1 << 30) / BLOCK)];
        let journal = runs(&fixed, cursor.next, journal_blocks);
        let first_free = journal.last().map_or(0, |run| run.end);
        (first_free < blocks).then_some(Self {
            blocks,
            fixed,
            block_bitmaps,
            inode_bitmaps,
            inode_tables,
            journal,
            first_free,
        })
    }

    pub(super) fn groups(&self) -> u64 {
        self.blocks.div_ceil(GROUP)
    }

    pub(super) fn inodes(&self) -> u32 {
        self.groups() as u32 * INODES_PER_GROUP
    }

    /// The block of an inode, and the inode's offset in it.
    pub(super) fn inode(&self, number: u32) -> (u64, usize) {
        let (group, index) = ((number - 1) / INODES_PER_GROUP, (number - 1) % INODES_PER_GROUP);
        let block = self.inode_tables[group as usize] + u64::from(index / INODES_PER_BLOCK);
        (block, (index % INODES_PER_BLOCK) as usize * INODE)
    }
}

/// Contiguous runs of blocks from `start` on, around the fixed blocks.
pub(super) fn runs(fixed: &[u64], start: u64, mut count: u64) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    let mut next = start;
    while count > 0 {
        while fixed.binary_search(&next).is_ok() {
            next += 1;
        }
        let barrier = fixed.get(fixed.partition_point(|block| *block < next)).copied().unwrap_or(u64::MAX);
        let length = count.min(barrier - next);
        runs.push(next..next + length);
        next += length;
        count -= length;
    }
    runs
}

/// Takes contiguous blocks from the front.
struct Cursor<'f> {
    fixed: &'f [u64],
    next: u64,
}

impl Cursor<'_> {
    fn take(&mut self, count: u64) -> u64 {
        while let Some(obstacle) = self.fixed.iter().find(|block| (self.next..self.next + count).contains(block)) {
            self.next = obstacle + 1;
        }
        self.next += count;
        self.next - count
    }
}

/// Groups 0 and 1 and the powers of 3, 5 and 7 have a superblock.
pub(super) fn has_superblock(group: u64) -> bool {
    let is_power = |base: u64| {
        let mut power = base;
        while power < group {
            power *= base;
        }
        power == group
    };
    group < 2 || [3, 5, 7].into_iter().any(is_power)
}

/// The block with group descriptors in a group. The first, second and last group of each 128 have one.
pub(super) fn descriptors_in(group: u64) -> Option<u64> {
    let position = group % DESCRIPTORS_PER_BLOCK;
    let has = position < 2 || position == DESCRIPTORS_PER_BLOCK - 1;
    has.then(|| group * GROUP + u64::from(has_superblock(group)))
}

/// The groups that the descriptors in a group describe.
pub(super) fn described_in(group: u64, groups: u64) -> Range<u64> {
    let first = group - group % DESCRIPTORS_PER_BLOCK;
    first..(first + DESCRIPTORS_PER_BLOCK).min(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_the_superblock_are_in_powers_of_three_five_and_seven() {
        let groups: Vec<u64> = (0..130).filter(|group| has_superblock(*group)).collect();
        assert_eq!(groups, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
        assert_eq!(
            (0..300).filter_map(descriptors_in).map(|block| block / GROUP).collect::<Vec<_>>(),
            [0, 1, 127, 128, 129, 255, 256, 257]
        );
    }

    #[test]
    fn runs_leave_fixed_blocks_out() {
        assert_eq!(runs(&[5, 6, 9], 4, 5), [4..5, 7..9, 10..12]);
        assert_eq!(runs(&[5], 5, 0), Vec::<Range<u64>>::new());
    }

    #[test]
    fn parts_never_overlap_in_any_size() {
        for blocks in (1..=80).map(|tenths| tenths * GROUP / 10 + 300).chain([40 * GROUP, 130 * GROUP + 256]) {
            let Some(geometry) = Geometry::new(blocks) else { continue };
            let mut all: Vec<Range<u64>> = geometry.fixed.iter().map(|block| *block..block + 1).collect();
            for singles in [&geometry.block_bitmaps, &geometry.inode_bitmaps] {
                all.extend(singles.iter().map(|block| *block..block + 1));
            }
            all.extend(geometry.inode_tables.iter().map(|block| *block..block + TABLE_BLOCKS));
            all.extend(geometry.journal.iter().cloned());
            all.sort_by_key(|range| range.start);
            assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{blocks}: {all:?}");
            assert!(all.iter().all(|range| range.end <= blocks || range.start >= geometry.first_free), "{blocks}");
        }
    }
}
