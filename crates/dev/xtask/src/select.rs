//! Selects the test targets of a tier, as arguments of `cargo test`.

use test_deps::Tier;

use crate::workspace::Workspace;

/// Selects library, program and integration tests of the tier. Cargo cannot exclude a target, so the arguments name all others.
pub fn targets(workspace: &Workspace, tier: Tier) -> Vec<String> {
    let mut names: Vec<&str> = workspace
        .packages
        .iter()
        .flat_map(|package| &package.test_targets)
        .map(String::as_str)
        .filter(|name| Tier::of_test_target(name) <= tier)
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut arguments = words("test --workspace --locked --no-fail-fast --color never --lib --bins");
    for name in names {
        arguments.extend(["--test".to_owned(), name.to_owned()]);
    }
    arguments.extend(features(workspace, tier));
    arguments
}

/// Selects documentation tests, which cargo cannot combine with others.
pub fn documentation(workspace: &Workspace, tier: Tier) -> Vec<String> {
    let mut arguments = words("test --workspace --locked --no-fail-fast --color never --doc");
    arguments.extend(features(workspace, tier));
    arguments
}

/// The features of the tier, so that all commands of a run share one build.
pub fn features(workspace: &Workspace, tier: Tier) -> Vec<String> {
    if tier < Tier::Full {
        return Vec::new();
    }
    let having = workspace.packages.iter().filter(|package| package.features.iter().any(|f| f == Tier::FULL_FEATURE));
    having.flat_map(|package| ["--features".to_owned(), format!("{}/{}", package.name, Tier::FULL_FEATURE)]).collect()
}

/// Splits a fixed command line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn workspace() -> Workspace {
        let package = |name: &str, tests: &[&str], features: &[&str]| Package {
            name: name.to_owned(),
            test_targets: tests.iter().map(|t| (*t).to_owned()).collect(),
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            ..Package::default()
        };
        Workspace {
            packages: vec![
                package("kiln", &["sdk_life", "az_login", "usage"], &["tier2"]),
                package("xtask", &["purity", "usage"], &[]),
            ],
        }
    }

    fn selected(tier: Tier) -> String {
        targets(&workspace(), tier).join(" ")
    }

    #[test]
    fn tier_selects_its_targets_once_and_no_others() {
        assert!(selected(Tier::Fast).ends_with("--lib --bins --test purity --test usage"), "{}", selected(Tier::Fast));
        assert!(selected(Tier::Default).ends_with("--bins --test purity --test sdk_life --test usage"));
        assert!(selected(Tier::Full).contains("--bins --test az_login --test purity --test sdk_life"));
    }

    #[test]
    fn feature_of_the_full_tier_is_enabled_only_where_it_exists() {
        assert!(selected(Tier::Full).ends_with("--test usage --features kiln/tier2"));
        assert!(!selected(Tier::Default).contains("--features"));
        assert_eq!(documentation(&workspace(), Tier::Full).iter().filter(|a| a.contains("tier2")).count(), 1);
    }
}
