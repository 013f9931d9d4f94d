//! How much of the suite runs.

use std::fmt;

use crate::Part;

/// How much of the suite runs; each tier holds the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Tier 0, `--fast`: needs a Rust toolchain and nothing else.
    Fast,
    /// Tier 1: what CI runs.
    Default,
    /// Tier 2, `--full`: adds the slow outside clients.
    Full,
}

/// What the start of a test target's name says about it. The first match counts; a name that matches nothing is [`Tier::Fast`].
const PREFIXES: [(&str, Tier); 4] =
    [("az_", Tier::Full), ("e2e_", Tier::Default), ("kube_", Tier::Default), ("sdk_", Tier::Default)];

impl Tier {
    /// Every tier, smallest first.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Default, Self::Full];

    /// The variable by which `xtask` tells tests the tier, for those that scale (the number of seeds).
    pub const VARIABLE: &'static str = "KILN_TIER";

    /// The cargo feature that test targets of [`Tier::Full`] require, so that a plain `cargo test` leaves them out.
    pub const FULL_FEATURE: &'static str = "tier2";

    /// The tier's name in `tests/floor.json` and in [`Tier::VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Default => "default",
            Self::Full => "full",
        }
    }

    /// The tier of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }

    /// The smallest tier that runs a test target of this name.
    pub fn of_test_target(name: &str) -> Self {
        PREFIXES.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Self::Fast, |(_, tier)| tier)
    }

    /// The parts that the tier needs.
    pub fn parts(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(move |part| part.tier() <= self)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_test_target_tells_its_tier() {
        assert_eq!(Tier::of_test_target("sdk_pool_life"), Tier::Default);
        assert_eq!(Tier::of_test_target("kube_drain"), Tier::Default);
        assert_eq!(Tier::of_test_target("az_login"), Tier::Full);
        assert_eq!(Tier::of_test_target("azure_json"), Tier::Fast);
        assert_eq!(Tier::of_test_target("purity"), Tier::Fast);
    }

    #[test]
    fn a_tier_needs_the_parts_of_the_tiers_below_it() {
        let parts = |tier: Tier| tier.parts().collect::<Vec<_>>();
        assert_eq!(parts(Tier::Fast), [Part::CargoDeny]);
        let slow = [Part::Umoci, Part::BenchTools, Part::BenchRoot, Part::AzureCli];
        let default: Vec<_> = Part::ALL.into_iter().filter(|part| !slow.contains(part)).collect();
        assert_eq!(parts(Tier::Default), default);
        assert_eq!(parts(Tier::Full), Part::ALL);
    }

    #[test]
    fn a_tier_is_found_by_its_own_name() {
        for tier in Tier::ALL {
            assert_eq!(Tier::from_name(tier.name()), Some(tier));
        }
        assert_eq!(Tier::from_name("slow"), None);
    }
}
