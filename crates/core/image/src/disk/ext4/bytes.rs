//! Little-endian fields at fixed offsets.

/// Writes a field of a structure.
pub(super) fn put<const N: usize>(structure: &mut [u8], offset: usize, field: [u8; N]) {
    structure[offset..offset + N].copy_from_slice(&field);
}

pub(super) fn put_u16(structure: &mut [u8], offset: usize, value: u16) {
    put(structure, offset, value.to_le_bytes());
}

pub(super) fn put_u32(structure: &mut [u8], offset: usize, value: u32) {
    put(structure, offset, value.to_le_bytes());
}

/// The lower and the upper half of a number.
pub(super) fn halves(value: u32) -> (u16, u16) {
    ((value & 0xffff) as u16, (value >> 16) as u16)
}

/// The lower and the upper half of a number of at most 48 or 64 bits.
pub(super) fn words(value: u64) -> (u32, u32) {
    ((value & 0xffff_ffff) as u32, (value >> 32) as u32)
}
