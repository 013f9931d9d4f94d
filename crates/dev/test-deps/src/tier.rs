//! The tiers of the test suite.

use std::fmt;

use crate::TestDep;

/// How much of the suite runs. Each tier includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Tier 0, `--fast`: needs only a Rust toolchain.
    Fast,
    /// Tier 1, which CI runs.
    Default,
    /// Tier 2, `--full`: adds slow clients such as `az`, and QEMU.
    Full,
}

/// The prefixes of test targets that are not [`Tier::Fast`].
const PREFIXES: [(&str, Tier); 4] =
    [("az_", Tier::Full), ("e2e_", Tier::Default), ("kube_", Tier::Default), ("sdk_", Tier::Default)];

impl Tier {
    /// All tiers, smallest first.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Default, Self::Full];

    /// `xtask` sets this variable to the tier's name, for tests that scale with it (the number of seeds).
    pub const VARIABLE: &'static str = "KILN_TIER";

    /// The cargo feature that test targets of [`Tier::Full`] require, so that plain `cargo test` does not build them.
    pub const FULL_FEATURE: &'static str = "tier2";

    /// The tier's name in `tests/floor.json` and in [`Tier::VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Default => "default",
            Self::Full => "full",
        }
    }

    /// The tier with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }

    /// The smallest tier that runs the test target with this name.
    pub fn of_test_target(name: &str) -> Self {
        PREFIXES.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(Self::Fast, |(_, tier)| tier)
    }

    /// The test dependencies that the tier needs.
    pub fn test_deps(self) -> impl Iterator<Item = TestDep> {
        TestDep::ALL.into_iter().filter(move |dependency| dependency.tier() <= self)
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
    fn prefix_of_a_test_target_selects_its_tier() {
        assert_eq!(Tier::of_test_target("sdk_pool_life"), Tier::Default);
        assert_eq!(Tier::of_test_target("kube_drain"), Tier::Default);
        assert_eq!(Tier::of_test_target("az_login"), Tier::Full);
        assert_eq!(Tier::of_test_target("azure_json"), Tier::Fast);
        assert_eq!(Tier::of_test_target("purity"), Tier::Fast);
    }

    #[test]
    fn a_tier_needs_the_dependencies_of_smaller_tiers() {
        let needed = |tier: Tier| tier.test_deps().collect::<Vec<_>>();
        assert_eq!(needed(Tier::Fast), [TestDep::CargoDeny]);
        let slow = [
            TestDep::Umoci,
            TestDep::CrossCompiler,
            TestDep::Arm64Emulator,
            TestDep::BenchTools,
            TestDep::BenchRoot,
            TestDep::Kwok,
            TestDep::KwokStages,
            TestDep::AzureCli,
        ];
        let default: Vec<_> = TestDep::ALL.into_iter().filter(|dependency| !slow.contains(dependency)).collect();
        assert_eq!(needed(Tier::Default), default);
        assert_eq!(needed(Tier::Full), TestDep::ALL);
    }

    #[test]
    fn tier_names_round_trip() {
        for tier in Tier::ALL {
            assert_eq!(Tier::from_name(tier.name()), Some(tier));
        }
        assert_eq!(Tier::from_name("slow"), None);
    }
}
