//! Compares the size of a file system with its partition.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The part of a partition that ext4 may not use: a last block group that is too small for its tables. Besides the inode table, whose size is in
/// the superblock, these are group descriptors, including reserved ones: 16 MiB for 32 TiB.
const EXT_SLACK: u64 = 20 << 20;

/// The largest block size is 64 KiB: 1024 shifted by this.
const EXT_MAX_SHIFT: u32 = 6;

/// Offset and magic number of an ext2, ext3 or ext4 superblock.
const EXT_SUPERBLOCK: u64 = 1024;
const EXT_MAGIC: [u8; 2] = [0x53, 0xef];

/// Whether a file system fills its device. False if that cannot be determined: growing a full file system does nothing, and a permission error
/// is reported then.
///
/// The size of an ext4 is read from its superblock. For other file systems, and if the device cannot be read, the free space statistics are used,
/// which do not include tables and the log: about 64 MiB plus a few percent.
pub(super) fn is_full(kind: &str, device: &Path, root: &Path, device_size: u64) -> bool {
    if let Some(ext) = kind.starts_with("ext").then(|| ext_size(device)).flatten() {
        return ext.size.saturating_add(ext.slack) >= device_size;
    }
    let Ok(stat) = rustix::fs::statvfs(root) else { return false };
    let size = stat.f_blocks.saturating_mul(stat.f_frsize);
    // A virtual file system has no size.
    size == 0 || size.saturating_add(device_size / 16).saturating_add(128 << 20) >= device_size
}

/// Sizes from an ext4 superblock, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Ext {
    size: u64,
    /// Space of the partition that it may not use.
    slack: u64,
}

/// Reads the superblock of an ext4; none if it is damaged. The kernel keeps it up to date in the page cache.
fn ext_size(device: &Path) -> Option<Ext> {
    let mut block = [0; 1024];
    File::open(device).ok()?.read_exact_at(&mut block, EXT_SUPERBLOCK).ok()?;
    if block[0x38..0x3a] != EXT_MAGIC {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    // With the 64-bit feature the number of blocks has a high half.
    let is_large = word(0x60) & 0x80 != 0;
    let blocks = u64::from(word(0x04)) | if is_large { u64::from(word(0x150)) << 32 } else { 0 };
    let shift = Some(word(0x18)).filter(|shift| *shift <= EXT_MAX_SHIFT)?;
    let inode_size = u16::from_le_bytes([block[0x58], block[0x59]]);
    let table = u64::from(word(0x28)) * u64::from(inode_size);
    Some(Ext { size: (1024_u64 << shift).checked_mul(blocks)?, slack: EXT_SLACK.saturating_add(table) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The first blocks of a device with an ext4 of this size.
    pub(in super::super) fn ext4(size: u64) -> Vec<u8> {
        let mut device = vec![0; 4096];
        let mut put = |at: usize, bytes: &[u8]| device[1024 + at..1024 + at + bytes.len()].copy_from_slice(bytes);
        let blocks = (size / 4096).to_le_bytes();
        put(0x04, &blocks[..4]);
        put(0x18, &[2]);
        put(0x38, &EXT_MAGIC);
        put(0x60, &[0xc2, 2]);
        put(0x150, &blocks[4..]);
        device
    }

    #[test]
    fn ext4_size_is_read_from_the_superblock() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        for size in [32 << 20, 30 << 30, 32 << 40] {
            std::fs::write(&device, ext4(size)).expect("written");
            assert_eq!(ext_size(&device).map(|ext| ext.size), Some(size));
            assert!(is_full("ext4", &device, folder.path(), size + (8 << 20)));
            assert!(!is_full("ext4", &device, folder.path(), size + size / 4 + (20 << 20)));
        }
    }

    #[test]
    fn last_group_without_room_for_inodes_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        let mut bytes = ext4(30 << 30);
        // The maximum number of inodes, 1 KiB each: a table of 32 MiB.
        bytes[1024 + 0x28..1024 + 0x2c].copy_from_slice(&32_768_u32.to_le_bytes());
        bytes[1024 + 0x58..1024 + 0x5a].copy_from_slice(&1024_u16.to_le_bytes());
        std::fs::write(&device, bytes).expect("written");
        assert!(is_full("ext4", &device, folder.path(), (30 << 30) + (48 << 20)));
        assert!(!is_full("ext4", &device, folder.path(), (30 << 30) + (64 << 20)));
    }

    #[test]
    fn damaged_superblock_is_ignored_without_overflow() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        let damage = |words: &[(usize, [u8; 4])]| {
            let mut bytes = ext4(30 << 30);
            for (at, word) in words {
                bytes[1024 + at..1024 + at + 4].copy_from_slice(word);
            }
            std::fs::write(&device, bytes).expect("written");
        };
        let is_unknown = |words: &[(usize, [u8; 4])]| {
            damage(words);
            ext_size(&device).is_none()
        };
        let is_full = |words: &[(usize, [u8; 4])]| {
            damage(words);
            is_full("ext4", &device, folder.path(), 1 << 40)
        };
        let (high, all) = ((0x150, [0xff; 4]), [0xff; 4]);
        assert!(!is_unknown(&[]) && !is_full(&[]), "a valid one that is not full");
        assert!(is_unknown(&[(0x18, all)]), "blocks of any size");
        // This shift would make the size zero.
        assert!(is_unknown(&[(0x18, 60_u32.to_le_bytes())]), "blocks of no size");
        assert!(is_unknown(&[high, (0x04, all)]), "more than 2^64 bytes");
        // Almost 2^64 bytes.
        assert!(is_full(&[(0x150, 0x000f_ffff_u32.to_le_bytes()), (0x04, all)]), "no overflow when the slack is added");
        assert!(is_full(&[(0x28, all), (0x58, all)]), "a table larger than any disk");
    }

    #[test]
    fn unknown_size_does_not_count_as_full() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = folder.path().join("nowhere");
        assert!(!is_full("ext4", &nowhere, &nowhere, 1 << 40), "neither device nor mount point");
        assert!(!is_full("xfs", &nowhere, &nowhere, 1 << 40), "no mount point");
        assert!(is_full("proc", &nowhere, Path::new("/proc"), 1 << 40), "no size");
    }

    #[test]
    fn statistics_are_used_if_the_superblock_is_unreadable() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        let stat = rustix::fs::statvfs("/").expect("a root");
        let size = stat.f_blocks * stat.f_frsize;
        let full = |device_size| is_full("ext4", &device, Path::new("/"), device_size);
        assert!(full(size + (64 << 20)) && !full(size * 2 + (1 << 30)), "no such device");
        std::fs::write(&device, vec![0; 4096]).expect("written");
        assert!(full(size + (64 << 20)) && !full(size * 2 + (1 << 30)), "no superblock");
    }

    #[test]
    fn statistics_are_used_for_other_file_systems() {
        let stat = rustix::fs::statvfs("/").expect("a root");
        let size = stat.f_blocks * stat.f_frsize;
        assert!(is_full("xfs", Path::new("/nowhere"), Path::new("/"), size + (64 << 20)));
        assert!(!is_full("xfs", Path::new("/nowhere"), Path::new("/"), size * 2 + (1 << 30)));
    }
}
