//! Identifiers that look random but follow from a seed, so that the same seed gives the same simulated state.

use kiln_types::hash::{SplitMix64, fnv1a_64, mix};
use serde::{Deserialize, Serialize};

/// A sequence of identifiers. Its state is one number and is saved with the simulated state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ids(SplitMix64);

impl Ids {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Starts the sequence of a name: the same name always gives the same identifiers.
    pub fn from_name(name: &str) -> Self {
        Self::new(fnv1a_64(name.as_bytes()))
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns the next UUID, with the version and variant bits of a random one.
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

/// Returns whether draw `n` of the stream `(seed, stream)` falls below `probability`.
pub fn chance(seed: u64, stream: u64, n: u64, probability: f64) -> bool {
    let bits = mix(mix(seed ^ mix(stream)).wrapping_add(n)) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let unit = bits as f64 / (1u64 << 53) as f64;
    unit < probability
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_follow_from_the_seed_and_are_version_4() {
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
