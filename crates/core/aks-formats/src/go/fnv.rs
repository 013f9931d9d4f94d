//! FNV hashes, compatible with Go's `hash/fnv`.

const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// Computes 64-bit FNV-1, which multiplies before it mixes in a byte.
pub fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| hash.wrapping_mul(PRIME_64) ^ u64::from(*byte))
}

/// Computes 64-bit FNV-1a, which mixes in a byte before it multiplies.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME_64))
}

/// Computes 32-bit FNV-1a.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(OFFSET_32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Test vectors of the reference implementation.
    #[test]
    fn hashes_match_the_published_test_vectors() {
        assert_eq!(fnv1_64(b""), OFFSET_64);
        assert_eq!(fnv1_64(b"a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(fnv1_64(b"foobar"), 0x340d_8765_a4dd_a9c2);
        assert_eq!(fnv1a_64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
    }
}
