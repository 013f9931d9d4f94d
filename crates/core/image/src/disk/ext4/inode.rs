//! The bytes of an inode: owner, mode, times, size and the place of the content.

use super::bytes::{halves, put_u16, put_u32, words};
use super::checksum::crc32c;
use super::geometry::{BLOCK, INODE};
use super::xattr;
use crate::disk::tree::{Attributes, Device, Kind};

/// Offset of the 60 bytes with extents, a short link or a device number.
const BODY: usize = 40;
const USES_EXTENTS: u32 = 0x8_0000;
/// Additional bytes after the first 128.
const ADDITIONAL: u16 = 32;
/// Longer targets of links are in a block.
pub(super) const LONGEST_SHORT_LINK: usize = 59;

/// Type bits of the mode, and the type in folders.
pub(super) fn types<C>(kind: &Kind<C>) -> (u16, u8) {
    match kind {
        Kind::File(_) | Kind::Link(_) => (0o100_000, 1),
        Kind::Directory => (0o040_000, 2),
        Kind::CharacterDevice(_) => (0o020_000, 3),
        Kind::BlockDevice(_) => (0o060_000, 4),
        Kind::Fifo => (0o010_000, 5),
        Kind::Symlink(_) => (0o120_000, 7),
    }
}

/// The 60 bytes of an inode.
pub(super) enum Body {
    Extents([u8; 60]),
    ShortLink(Vec<u8>),
    Device(Device),
    Nothing,
}

/// The values of an inode.
pub(super) struct Inode<'t> {
    pub(super) number: u32,
    pub(super) file_type: u16,
    pub(super) attributes: &'t Attributes,
    pub(super) links: u16,
    pub(super) size: u64,
    /// Blocks of all kinds that belong to it.
    pub(super) blocks: u64,
    pub(super) body: Body,
    pub(super) attribute_block: u64,
}

/// The seed of checksums of an inode and of the blocks that belong to it.
pub(super) fn seed(file_system: u32, number: u32) -> u32 {
    // The second number is the generation, which only network file systems use.
    crc32c(crc32c(file_system, &number.to_le_bytes()), &0_u32.to_le_bytes())
}

impl Inode<'_> {
    pub(super) fn bytes(&self, file_system: u32) -> Vec<u8> {
        let Self { attributes, .. } = self;
        let mut bytes = vec![0; INODE];
        let ((uid, uid_high), (gid, gid_high)) = (halves(attributes.uid), halves(attributes.gid));
        let (size, size_high) = words(self.size);
        put_u16(&mut bytes, 0, self.file_type | attributes.mode);
        put_u16(&mut bytes, 2, uid);
        put_u32(&mut bytes, 4, size);
        // Access, change and modification, then creation.
        for offset in [8, 12, 16, 144] {
            put_u32(&mut bytes, offset, attributes.modified);
        }
        // The 32 bits are signed. Times after 2038 have another bit.
        for offset in [132, 136, 140, 148] {
            put_u32(&mut bytes, offset, attributes.modified >> 31);
        }
        put_u16(&mut bytes, 24, gid);
        put_u16(&mut bytes, 26, self.links);
        let (sectors, sectors_high) = words(self.blocks * BLOCK / 512);
        put_u32(&mut bytes, 28, sectors);
        put_u16(&mut bytes, 116, sectors_high as u16);
        match &self.body {
            Body::Extents(extents) => {
                put_u32(&mut bytes, 32, USES_EXTENTS);
                bytes[BODY..BODY + 60].copy_from_slice(extents);
            }
            Body::ShortLink(target) => bytes[BODY..BODY + target.len()].copy_from_slice(target),
            Body::Device(device) => put_device(&mut bytes, *device),
            Body::Nothing => {}
        }
        let (block, block_high) = words(self.attribute_block);
        put_u32(&mut bytes, 104, block);
        put_u16(&mut bytes, 118, block_high as u16);
        put_u32(&mut bytes, 108, size_high);
        put_u16(&mut bytes, 120, uid_high);
        put_u16(&mut bytes, 122, gid_high);
        put_u16(&mut bytes, 128, ADDITIONAL);
        xattr::Attributes::new(&attributes.extended).put_in_inode(&mut bytes);
        let (sum, sum_high) = halves(crc32c(seed(file_system, self.number), &bytes));
        put_u16(&mut bytes, 124, sum);
        put_u16(&mut bytes, 130, sum_high);
        bytes
    }
}

/// Small numbers have an old form, others a new one in the second word.
fn put_device(bytes: &mut [u8], Device { major, minor }: Device) {
    if major < 256 && minor < 256 {
        put_u32(bytes, BODY, (major << 8) | minor);
    } else {
        put_u32(bytes, BODY + 4, (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12));
    }
}
