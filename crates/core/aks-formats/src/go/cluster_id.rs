//! The cluster ID: eight digits in the names of a cluster's network resources, derived from the host name of its API server.

use kiln_types::hash::fnv1a_64;

/// Number of bytes of the name that are hashed. Karpenter panics on a shorter name; here a shorter name is hashed completely.
const HASHED_BYTES: usize = 33;

// Go's generator combines the seed with a fixed table; the first number depends on two entries of it. The test below computes both
// from the recurrence that generated the table.
const SLOT_333: u64 = 13_813_372_221_700_659_651;
const SLOT_606: u64 = 4_152_330_101_494_654_406;

/// Returns the cluster ID for an API server's host name: the first number of Go's `math/rand`, seeded with the hash of the name.
pub fn from_fqdn(fqdn: &str) -> String {
    let hashed = &fqdn.as_bytes()[..fqdn.len().min(HASHED_BYTES)];
    let random = first_u32(fnv1a_64(hashed).cast_signed());
    let digits = format!("{random:08}");
    digits[..8].to_owned()
}

/// Extracts the cluster ID from the name of an AKS network security group.
pub fn from_security_group(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let digits = name.strip_prefix("aks-agentpool-")?.strip_suffix("-nsg")?;
    (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.to_owned())
}

/// Returns the first `Uint32` of a generator with this seed: the upper 32 of the 63 bits of its first number.
fn first_u32(seed: i64) -> u32 {
    let slots = seeded(seed, |a, b, c| (a << 40) ^ (b << 20) ^ c);
    let first = (slots[333] ^ SLOT_333).wrapping_add(slots[606] ^ SLOT_606);
    u32::try_from((first & (u64::MAX >> 1)) >> 31).expect("63 bits shifted by 31 are 32 bits")
}

/// Returns the 607 state words for a seed. Each combines three numbers of a small generator, after the first twenty are discarded.
fn seeded(seed: i64, join: fn(u64, u64, u64) -> u64) -> Vec<u64> {
    const MODULUS: i64 = (1 << 31) - 1;
    let mut x = u64::try_from(seed.rem_euclid(MODULUS)).expect("a remainder is not negative");
    if x == 0 {
        x = 89_482_311;
    }
    let mut draw = || {
        x = x * 48_271 % MODULUS.unsigned_abs();
        x
    };
    for _ in 0..20 {
        draw();
    }
    (0..607).map(|_| join(draw(), draw(), draw())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: usize = 607;
    const TAP: usize = 334;

    /// Multiplies two polynomials modulo x^607 - x^334 - 1 over the integers modulo 2^64.
    fn multiply(a: &[u64], b: &[u64]) -> Vec<u64> {
        let mut product = vec![0_u64; 2 * LENGTH - 1];
        for (i, x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
            for (j, y) in b.iter().enumerate() {
                product[i + j] = product[i + j].wrapping_add(x.wrapping_mul(*y));
            }
        }
        for power in (LENGTH..product.len()).rev() {
            let carried = product[power];
            product[power - LENGTH] = product[power - LENGTH].wrapping_add(carried);
            product[power - LENGTH + TAP] = product[power - LENGTH + TAP].wrapping_add(carried);
        }
        product.truncate(LENGTH);
        product
    }

    /// Computes the table after 7.8e12 steps of s(n) = s(n-607) + s(n-273) by exponentiation.
    fn table() -> Vec<u64> {
        let steps: u64 = 7_800_000_000_000;
        let start = seeded(1, |a, b, c| (a << 20) ^ (b << 10) ^ c);
        // The slot of step n is (334 - n) mod 607; the starting slots are those of steps -606 to 0.
        let slot = |step: i128| usize::try_from((334 - step).rem_euclid(607)).unwrap();
        let mut window: Vec<u64> = (-606..=0).map(|step| start[slot(step)]).collect();
        for index in LENGTH..2 * LENGTH {
            window.push(window[index - LENGTH].wrapping_add(window[index - LENGTH + TAP]));
        }
        let mut power = vec![0_u64; LENGTH];
        power[0] = 1;
        let mut x = vec![0_u64; LENGTH];
        x[1] = 1;
        for bit in (0..u64::BITS - steps.leading_zeros()).rev() {
            power = multiply(&power, &power);
            if steps >> bit & 1 == 1 {
                power = multiply(&x, &power);
            }
        }
        let mut table = vec![0; LENGTH];
        for offset in 0..LENGTH {
            let value =
                power.iter().zip(&window[offset..]).fold(0_u64, |sum, (c, s)| sum.wrapping_add(c.wrapping_mul(*s)));
            table[slot(i128::from(steps) - 606 + i128::try_from(offset).unwrap())] = value;
        }
        table
    }

    #[test]
    fn table_entries_match_gos_table() {
        let table = table();
        assert_eq!(table[0].cast_signed(), -4_181_792_142_133_755_926);
        assert_eq!(table[7].cast_signed(), 4_812_947_590_706_362_721);
        assert_eq!((SLOT_333, SLOT_606), (table[333], table[606]));
    }

    #[test]
    fn cluster_id_matches_karpenter() {
        assert_eq!(from_fqdn("environment-cluster-id-value-for-testing"), "46593302");
        assert_eq!(from_fqdn("karpenter-000000000000.hcp.westus2.staging.azmk8s.io"), "34455734");
    }

    #[test]
    fn short_and_non_ascii_names_do_not_panic() {
        assert_eq!(from_fqdn("").len(), 8);
        assert_eq!(from_fqdn(&"ö".repeat(40)).len(), 8);
    }

    #[test]
    fn security_group_name_is_parsed_case_insensitively() {
        assert_eq!(from_security_group("AKS-AGENTPOOL-46593302-NSG").as_deref(), Some("46593302"));
        assert_eq!(from_security_group("aks-agentpool-465933-nsg"), None);
        assert_eq!(from_security_group("my-nsg"), None);
    }
}
