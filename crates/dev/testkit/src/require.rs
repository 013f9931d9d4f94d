//! Access to test dependencies and to the tier.

use std::path::PathBuf;

use test_deps::{Cache, TestDep, Tier};

/// The program of a test dependency. If it is not installed, the test fails with the command that installs it.
#[track_caller]
pub fn require(dependency: TestDep) -> PathBuf {
    program(&Cache::of_user().unwrap_or_else(|error| panic!("{error}")), dependency)
}

#[track_caller]
fn program(cache: &Cache, dependency: TestDep) -> PathBuf {
    cache.find(dependency).unwrap_or_else(|missing| panic!("{missing}"))
}

/// The tier of this test run, for tests that scale with it (the number of seeds). Outside `cargo xtask test` it is the default tier.
#[track_caller]
pub fn tier() -> Tier {
    parse_tier(std::env::var(Tier::VARIABLE).ok().as_deref())
}

#[track_caller]
fn parse_tier(name: Option<&str>) -> Tier {
    let Some(name) = name else { return Tier::Default };
    Tier::from_name(name).unwrap_or_else(|| panic!("unknown tier `{name}` in {}", Tier::VARIABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "run `cargo xtask setup python`")]
    fn missing_dependency_fails_the_test_with_the_command_that_installs_it() {
        program(&Cache::at("/nonexistent"), TestDep::PythonSdk);
    }

    #[test]
    fn tests_that_cargo_runs_have_the_default_tier() {
        assert_eq!(parse_tier(None), Tier::Default);
        assert_eq!(parse_tier(Some("full")), Tier::Full);
    }

    #[test]
    #[should_panic(expected = "unknown tier `ful`")]
    fn misspelt_tier_is_rejected() {
        parse_tier(Some("ful"));
    }
}
