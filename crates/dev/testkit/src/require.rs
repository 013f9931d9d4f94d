//! Parts and the tier, as tests ask for them.

use std::path::PathBuf;

use test_deps::{Cache, Part, Tier};

/// The program of a part. A test whose part is missing fails, with the command that installs it.
#[track_caller]
pub fn require(part: Part) -> PathBuf {
    program(&Cache::of_user().unwrap_or_else(|error| panic!("{error}")), part)
}

#[track_caller]
fn program(cache: &Cache, part: Part) -> PathBuf {
    cache.find(part).unwrap_or_else(|missing| panic!("{missing}"))
}

/// The tier that runs, for tests that scale with it (the number of seeds). Outside `cargo xtask test` it is the default one.
#[track_caller]
pub fn tier() -> Tier {
    named(std::env::var(Tier::VARIABLE).ok().as_deref())
}

#[track_caller]
fn named(name: Option<&str>) -> Tier {
    let Some(name) = name else { return Tier::Default };
    Tier::from_name(name).unwrap_or_else(|| panic!("{}=`{name}` is no tier", Tier::VARIABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "run `cargo xtask setup python`")]
    fn a_missing_part_fails_the_test_with_the_command_that_installs_it() {
        program(&Cache::at("/nonexistent"), Part::PythonSdk);
    }

    #[test]
    fn a_test_run_by_cargo_alone_has_the_default_tier() {
        assert_eq!(named(None), Tier::Default);
        assert_eq!(named(Some("full")), Tier::Full);
    }

    #[test]
    #[should_panic(expected = "`ful` is no tier")]
    fn a_misspelt_tier_is_not_taken_for_the_default() {
        named(Some("ful"));
    }
}
