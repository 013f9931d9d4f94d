//! Test dependencies and the tier of a test run.

use std::path::PathBuf;

use test_deps::{Cache, Part, Tier};

/// The program of a test dependency. If it is missing, the test fails with the command that installs it.
#[track_caller]
pub fn require(part: Part) -> PathBuf {
    program(&Cache::of_user().unwrap_or_else(|error| panic!("{error}")), part)
}

#[track_caller]
fn program(cache: &Cache, part: Part) -> PathBuf {
    cache.find(part).unwrap_or_else(|missing| panic!("{missing}"))
}

/// The tier of this test run, for tests that scale with it, for example by the number of seeds. Outside of `cargo xtask test` it is the
/// default tier.
#[track_caller]
pub fn tier() -> Tier {
    named(std::env::var(Tier::VARIABLE).ok().as_deref())
}

#[track_caller]
fn named(name: Option<&str>) -> Tier {
    let Some(name) = name else { return Tier::Default };
    Tier::from_name(name).unwrap_or_else(|| panic!("unknown tier `{name}` in {}", Tier::VARIABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "run `cargo xtask setup python`")]
    fn missing_dependency_fails_with_the_command_that_installs_it() {
        program(&Cache::at("/nonexistent"), Part::PythonSdk);
    }

    #[test]
    fn default_tier_without_xtask() {
        assert_eq!(named(None), Tier::Default);
        assert_eq!(named(Some("full")), Tier::Full);
    }

    #[test]
    #[should_panic(expected = "unknown tier `ful`")]
    fn unknown_tier_fails() {
        named(Some("ful"));
    }
}
