//! Deterministic hashing and pseudo-random numbers. They spread values; they must not protect a secret.

use serde::{Deserialize, Serialize};

const FNV_OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME_64: u64 = 0x0100_0000_01b3;

/// The 64-bit FNV-1 hash, which multiplies before it mixes in a byte.
pub fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_OFFSET_64, |hash, byte| hash.wrapping_mul(FNV_PRIME_64) ^ u64::from(*byte))
}

/// The 64-bit FNV-1a hash, which mixes in a byte before it multiplies.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_OFFSET_64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME_64))
}

/// The 32-bit FNV-1a hash.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The output function of `SplitMix64`: neighbouring inputs give unrelated outputs.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `SplitMix64` generator. Its whole state is one number, so that it can be stored and resumed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of the sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// The first number of the sequence with this seed, as a hash of the seed.
pub fn splitmix64(seed: u64) -> u64 {
    SplitMix64::new(seed).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_and_sequence_match_their_reference_values() {
        assert_eq!(fnv1a_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1_64(b"a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(fnv1_64(b"foobar"), 0x340d_8765_a4dd_a9c2);
        let mut numbers = SplitMix64::new(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([numbers.next_u64(), numbers.next_u64(), numbers.next_u64()], first);
    }
}
