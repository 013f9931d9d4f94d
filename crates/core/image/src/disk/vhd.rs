//! A fixed VHD, as Azure wants it: the disk, a whole number of MiB, and a footer.

use super::Piece;

const MIB: u64 = 1 << 20;
const FOOTER: usize = 512;
/// From 1970 to 2000, where the format's time starts.
const EPOCH: u32 = 946_684_800;

/// Bytes of the file of a disk: that of the disk, rounded up to a MiB, and the footer.
pub fn file_size(disk: u64) -> u64 {
    disk.next_multiple_of(MIB) + FOOTER as u64
}

/// The footer of a disk. Time and id are part of it, so they must come from the content to give the same bytes.
pub fn footer<C>(disk: u64, created: u32, id: [u8; 16]) -> Piece<C> {
    let size = disk.next_multiple_of(MIB);
    let mut bytes = vec![0; FOOTER];
    let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
    put(0, b"conectix");
    // A reserved bit that is always set, and version 1.0.
    put(8, &2_u32.to_be_bytes());
    put(12, &0x0001_0000_u32.to_be_bytes());
    // A fixed disk has no further header.
    put(16, &u64::MAX.to_be_bytes());
    put(24, &created.saturating_sub(EPOCH).to_be_bytes());
    // qemu takes the size from the geometry, which is coarser, unless it knows the creator.
    put(28, b"win ");
    put(32, &0x000a_0000_u32.to_be_bytes());
    put(36, b"Wi2k");
    put(40, &size.to_be_bytes());
    put(48, &size.to_be_bytes());
    put(56, &geometry(size));
    put(60, &2_u32.to_be_bytes());
    put(68, &id);
    let sum = !bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    bytes[64..68].copy_from_slice(&sum.to_be_bytes());
    Piece::bytes(size, bytes)
}

/// Cylinders, heads and sectors by the rules of the format.
fn geometry(size: u64) -> [u8; 4] {
    let total = (size / 512).min(65535 * 16 * 255);
    let (per_track, heads, tracks) = if total >= 65535 * 16 * 63 {
        (255, 16, total / 255)
    } else {
        let tracks = total / 17;
        let heads = tracks.div_ceil(1024).max(4);
        if tracks < heads * 1024 && heads <= 16 {
            (17, heads, tracks)
        } else if total / 31 < 16 * 1024 {
            (31, 16, total / 31)
        } else {
            (63, 16, total / 63)
        }
    };
    let cylinders = (tracks / heads) as u16;
    let [high, low] = cylinders.to_be_bytes();
    [high, low, heads as u8, per_track]
}
