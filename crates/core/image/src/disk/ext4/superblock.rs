//! The superblock, the group descriptors and the bitmaps.

use super::bytes::{put, put_u16, put_u32};
use super::checksum::crc32c;
use super::geometry::{BLOCK, DESCRIPTOR, GROUP, Geometry, INODES_PER_GROUP};
use super::{FIRST_INODE, JOURNAL_INODE, Options};

/// Journal, extended attributes, indexed folders.
const COMPATIBLE: u32 = 0x4 | 0x8 | 0x20;
/// File types in folders, descriptors in groups of groups, extents, flexible groups.
const INCOMPATIBLE: u32 = 0x2 | 0x10 | 0x40 | 0x200;
/// Few superblocks, large and huge files, many subfolders, larger inodes, checksums.
const READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2 | 0x8 | 0x20 | 0x40 | 0x400;
/// The inode table is zero where it has no inodes.
const TABLE_IS_ZEROED: u16 = 0x4;

/// Blocks and inodes in use.
pub(super) struct Used {
    /// One bit for each block.
    pub(super) blocks: Bits,
    /// One bit for each inode, from inode 1 on.
    pub(super) inodes: Bits,
    /// Folders in each group.
    pub(super) folders: Vec<u16>,
}

/// A set of numbers.
pub(super) struct Bits(Vec<u8>);

impl Bits {
    pub(super) fn new(count: u64) -> Self {
        Self(vec![0; count.div_ceil(8) as usize])
    }

    pub(super) fn set(&mut self, index: u64) {
        self.0[(index / 8) as usize] |= 1 << (index % 8);
    }

    /// The bits of a group, and the number of those that are not set.
    fn group(&self, group: u64, per_group: u64, count: u64) -> (Vec<u8>, u32) {
        let (first, end) = (group * per_group, ((group + 1) * per_group).min(count));
        let mut bytes = self.0[(first / 8) as usize..end.div_ceil(8) as usize].to_vec();
        let free = (end - first) as u32 - bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        // What lies behind the end is not free.
        for index in end - first..(bytes.len() * 8) as u64 {
            bytes[(index / 8) as usize] |= 1 << (index % 8);
        }
        bytes.resize(BLOCK as usize, 0xff);
        (bytes, free)
    }
}

/// Descriptors and bitmaps of all groups.
pub(super) struct Groups {
    pub(super) descriptors: Vec<[u8; DESCRIPTOR]>,
    /// Blocks with their content.
    pub(super) bitmaps: Vec<(u64, Vec<u8>)>,
    free_blocks: u32,
    free_inodes: u32,
}

impl Groups {
    pub(super) fn new(geometry: &Geometry, used: &Used, seed: u32) -> Self {
        let mut all = Self { descriptors: Vec::new(), bitmaps: Vec::new(), free_blocks: 0, free_inodes: 0 };
        for group in 0..geometry.groups() {
            let index = group as usize;
            let (blocks, free_blocks) = used.blocks.group(group, GROUP, geometry.blocks);
            let per_group = u64::from(INODES_PER_GROUP);
            let (inodes, free_inodes) = used.inodes.group(group, per_group, u64::from(geometry.inodes()));
            let inode_bits = &inodes[..INODES_PER_GROUP as usize / 8];
            let unused = inode_bits.iter().rev().take_while(|byte| **byte == 0).count() * 8;
            let mut descriptor = [0; DESCRIPTOR];
            let places = [geometry.block_bitmaps[index], geometry.inode_bitmaps[index], geometry.inode_tables[index]];
            for (at, place) in places.into_iter().enumerate() {
                put_u32(&mut descriptor, 4 * at, place as u32);
            }
            put_u16(&mut descriptor, 12, free_blocks as u16);
            put_u16(&mut descriptor, 14, free_inodes as u16);
            put_u16(&mut descriptor, 16, used.folders[index]);
            put_u16(&mut descriptor, 18, TABLE_IS_ZEROED);
            put_u16(&mut descriptor, 24, crc32c(seed, &blocks) as u16);
            put_u16(&mut descriptor, 26, crc32c(seed, inode_bits) as u16);
            put_u16(&mut descriptor, 28, unused as u16);
            let sum = crc32c(crc32c(seed, &(group as u32).to_le_bytes()), &descriptor);
            put_u16(&mut descriptor, 30, sum as u16);
            all.descriptors.push(descriptor);
            all.bitmaps.extend([(places[0], blocks), (places[1], inodes)]);
            all.free_blocks += free_blocks;
            all.free_inodes += free_inodes;
        }
        all
    }

    /// The superblock as it is in a group. The journal is the 60 bytes of its inode.
    pub(super) fn superblock(&self, group: u64, geometry: &Geometry, options: &Options, journal: &[u8; 60]) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        let journal_size: u64 = geometry.journal.iter().map(|run| (run.end - run.start) * BLOCK).sum();
        let words: [(usize, u32); 21] = [
            (0, geometry.inodes()),
            (4, geometry.blocks as u32),
            (12, self.free_blocks),
            (16, self.free_inodes),
            // Blocks and clusters of 4096 bytes.
            (24, 2),
            (28, 2),
            (32, GROUP as u32),
            (36, GROUP as u32),
            (40, INODES_PER_GROUP),
            (48, options.created),
            (64, options.created),
            // The revision with features.
            (76, 1),
            (84, FIRST_INODE),
            (92, COMPATIBLE),
            (96, INCOMPATIBLE),
            (100, READ_ONLY_COMPATIBLE),
            (224, JOURNAL_INODE),
            // Extended attributes of users and access control lists are on.
            (256, 0x4 | 0x8),
            (264, options.created),
            // The copy of the journal's inode: its 60 bytes, then the size.
            (268 + 64, journal_size as u32),
            // Hashes of names treat bytes as signed.
            (352, 1),
        ];
        for (offset, value) in words {
            put_u32(&mut bytes, offset, value);
        }
        let halves: [(usize, u16); 7] = [
            // No limit on the number of mounts.
            (54, 0xffff),
            (56, 0xef53),
            // Unmounted cleanly; continue after errors.
            (58, 1),
            (60, 1),
            (88, super::geometry::INODE as u16),
            (90, group as u16),
            // Needed and wanted additional bytes of inodes; the second follows.
            (348, 32),
        ];
        for (offset, value) in halves {
            put_u16(&mut bytes, offset, value);
        }
        put_u16(&mut bytes, 350, 32);
        put(&mut bytes, 104, options.uuid);
        bytes[120..120 + options.label.len()].copy_from_slice(options.label.as_bytes());
        put(&mut bytes, 236, options.hash_seed);
        // Half of MD4 for names; the copy of the journal's inode is valid.
        bytes[252] = 1;
        bytes[253] = 1;
        put(&mut bytes, 268, *journal);
        // 16 groups belong together; CRC-32C.
        bytes[372] = 4;
        bytes[373] = 1;
        let sum = crc32c(!0, &bytes[..1020]);
        put_u32(&mut bytes, 1020, sum);
        bytes
    }
}

/// The first block of an empty journal, in the byte order of the journal.
pub(super) fn journal_header(blocks: u64, uuid: [u8; 16]) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let words = [
        (0, 0xc03b_3998),
        // The second version of the superblock.
        (4, 4),
        (12, BLOCK as u32),
        (16, blocks as u32),
        // The first block of the log, and its first number.
        (20, 1),
        (24, 1),
        // One user.
        (64, 1),
    ];
    for (offset, value) in words {
        put(&mut bytes, offset, u32::to_be_bytes(value));
    }
    put(&mut bytes, 48, uuid);
    bytes
}
