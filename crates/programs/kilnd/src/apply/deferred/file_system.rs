//! How large a file system is, beside the partition that it is on.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// What ext4 may leave of a partition: a last group of blocks that is too small for its own tables. Besides the table of inodes, whose size
/// the superblock gives, these are descriptors of groups, with those kept back for growth: 16 MiB for 32 TiB.
const EXT_SLACK: u64 = 20 << 20;

/// Blocks have at most 64 KiB, 1024 doubled so often.
const EXT_DOUBLED: u32 = 6;

/// Where the superblock of ext2 to ext4 begins, and what in it says that it is one.
const EXT_SUPERBLOCK: u64 = 1024;
const EXT_MAGIC: [u8; 2] = [0x53, 0xef];

/// Whether a file system is as large as its device. What cannot be told is not: growing what is grown does nothing, and who may not even
/// look at a disk fails there and says so.
///
/// ext4 keeps its own size where the device can be read. Others are asked for their space, and so is an ext4 whose device is shut: their
/// tables and their log are left out, some 64 MiB and up to a few hundredths.
pub(super) fn is_full(kind: &str, device: &Path, root: &Path, device_size: u64) -> bool {
    if let Some(ext) = kind.starts_with("ext").then(|| ext_size(device)).flatten() {
        return ext.size.saturating_add(ext.slack) >= device_size;
    }
    let Ok(said) = rustix::fs::statvfs(root) else { return false };
    let size = said.f_blocks.saturating_mul(said.f_frsize);
    // Without a size it is not one that lies on a device.
    size == 0 || size.saturating_add(device_size / 16).saturating_add(128 << 20) >= device_size
}

/// What the superblock of an ext4 says, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Ext {
    size: u64,
    /// What it may leave of its partition.
    slack: u64,
}

/// The size of an ext4 by its superblock, which the kernel keeps up to date in what is read here. A damaged one says nothing.
fn ext_size(device: &Path) -> Option<Ext> {
    let mut block = [0; 1024];
    File::open(device).ok()?.read_exact_at(&mut block, EXT_SUPERBLOCK).ok()?;
    if block[0x38..0x3a] != EXT_MAGIC {
        return None;
    }
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    // With many blocks their number has a second half.
    let is_large = word(0x60) & 0x80 != 0;
    let blocks = u64::from(word(0x04)) | if is_large { u64::from(word(0x150)) << 32 } else { 0 };
    let doubled = Some(word(0x18)).filter(|doubled| *doubled <= EXT_DOUBLED)?;
    let inode_size = u16::from_le_bytes([block[0x58], block[0x59]]);
    let table = u64::from(word(0x28)) * u64::from(inode_size);
    Some(Ext { size: (1024_u64 << doubled).checked_mul(blocks)?, slack: EXT_SLACK.saturating_add(table) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The beginning of a device with an ext4 of this size.
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
    fn an_ext4_says_its_own_size() {
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
    fn a_last_group_without_room_for_its_inodes_is_not_grown_into() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        let mut bytes = ext4(30 << 30);
        // As many inodes as a group may have, of 1 KiB: a table of 32 MiB.
        bytes[1024 + 0x28..1024 + 0x2c].copy_from_slice(&32_768_u32.to_le_bytes());
        bytes[1024 + 0x58..1024 + 0x5a].copy_from_slice(&1024_u16.to_le_bytes());
        std::fs::write(&device, bytes).expect("written");
        assert!(is_full("ext4", &device, folder.path(), (30 << 30) + (48 << 20)));
        assert!(!is_full("ext4", &device, folder.path(), (30 << 30) + (64 << 20)));
    }

    #[test]
    fn a_damaged_superblock_says_nothing_and_overflows_nothing() {
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
        assert!(!is_unknown(&[]) && !is_full(&[]), "a good one, which is not full");
        assert!(is_unknown(&[(0x18, all)]), "blocks of any size");
        // Shifted so far, all of 1024 is gone, and the file system would have no size.
        assert!(is_unknown(&[(0x18, 60_u32.to_le_bytes())]), "blocks of no size");
        assert!(is_unknown(&[high, (0x04, all)]), "more blocks than bytes can be counted");
        // As many bytes as can be counted, all but a few.
        assert!(is_full(&[(0x150, 0x000f_ffff_u32.to_le_bytes()), (0x04, all)]), "no room for what is left over");
        assert!(is_full(&[(0x28, all), (0x58, all)]), "a table larger than any disk");
    }

    #[test]
    fn what_cannot_be_told_is_not_taken_as_grown() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = folder.path().join("nowhere");
        assert!(!is_full("ext4", &nowhere, &nowhere, 1 << 40), "neither a device nor a file system to ask");
        assert!(!is_full("xfs", &nowhere, &nowhere, 1 << 40), "nobody to ask");
        assert!(is_full("proc", &nowhere, Path::new("/proc"), 1 << 40), "nothing that has a size");
    }

    #[test]
    fn an_ext4_whose_device_is_shut_is_asked_for_its_space() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("device");
        let said = rustix::fs::statvfs("/").expect("a root");
        let size = said.f_blocks * said.f_frsize;
        let look = |device_size| is_full("ext4", &device, Path::new("/"), device_size);
        assert!(look(size + (64 << 20)) && !look(size * 2 + (1 << 30)), "no such device");
        std::fs::write(&device, vec![0; 4096]).expect("written");
        assert!(look(size + (64 << 20)) && !look(size * 2 + (1 << 30)), "no superblock");
    }

    #[test]
    fn another_file_system_is_asked_and_may_keep_some_for_itself() {
        let said = rustix::fs::statvfs("/").expect("a root");
        let size = said.f_blocks * said.f_frsize;
        assert!(is_full("xfs", Path::new("/nowhere"), Path::new("/"), size + (64 << 20)));
        assert!(!is_full("xfs", Path::new("/nowhere"), Path::new("/"), size * 2 + (1 << 30)));
    }
}
