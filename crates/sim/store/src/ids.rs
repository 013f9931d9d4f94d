//! Identifiers that look random and are not: the same seed gives the same world.

use serde::{Deserialize, Serialize};

/// A `SplitMix64` sequence. It is good enough to tell things apart and small enough to be part of the persisted world.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ids(u64);

impl Ids {
    /// The sequence that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the sequence.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next UUID, with the version and variant bits of a random one.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.number(), self.number());
        let high = (high & !0xf000) | 0x4000;
        let low = (low & (u64::MAX >> 2)) | (1 << 63);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

/// Whether the `n`th draw of a stream named by `seed` and `stream` falls below `probability`.
pub fn chance(seed: u64, stream: u64, n: u64, probability: f64) -> bool {
    let bits = mix(mix(seed ^ mix(stream)).wrapping_add(n)) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let unit = bits as f64 / (1u64 << 53) as f64;
    unit < probability
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_uuids_have_the_right_shape() {
        let (mut a, mut b, mut c) = (Ids::new(7), Ids::new(7), Ids::new(8));
        let id = a.uuid();
        assert_eq!(id, b.uuid());
        assert_ne!(id, c.uuid());
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
    }

    #[test]
    fn chance_follows_its_probability() {
        let hits = (0..10_000).filter(|n| chance(1, 2, *n, 0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!chance(1, 2, 3, 0.0));
    }
}
