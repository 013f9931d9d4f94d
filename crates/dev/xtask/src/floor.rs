//! The number of tests that each test binary must have, so that a test or a whole target cannot disappear unnoticed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use test_deps::Tier;

use crate::lanes;
use crate::process;
use crate::select;
use crate::tally;
use crate::workspace::{self, Workspace};

/// The committed floor, relative to the root of the repository. It maps the smallest tier that runs a binary to the binary's selection
/// to its number of tests.
pub const FILE: &str = "tests/floor.json";

/// The number of tests by selection (`-p kiln-azure --test it`).
pub type Counts = BTreeMap<String, usize>;

/// The floor is not reached, or cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Selection, number of tests and floor of each binary with too few tests.
    Below(Vec<(String, usize, usize)>),
    Unreadable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(binaries) => {
                let each =
                    binaries.iter().map(|(selection, count, floor)| format!("`{selection}` ran {count} of {floor}"));
                let each: Vec<_> = each.collect();
                write!(f, "lost tests: {}; after an intended removal run `cargo xtask floor`", each.join(", "))
            }
            Self::Unreadable(why) => write!(f, "{FILE}: {why}"),
        }
    }
}

/// Compares the number of tests per binary with the content of the floor file. Returns a note for the report.
pub fn compare(content: &str, tier: Tier, counts: &Counts) -> Result<String, Fault> {
    let floors: BTreeMap<String, Counts> = parse(content).ok_or_else(|| {
        Fault::Unreadable("expected numbers of tests by tier and binary; run `cargo xtask floor`".to_owned())
    })?;
    let mut floor = Counts::new();
    for smaller in Tier::ALL.into_iter().filter(|smaller| *smaller <= tier) {
        let binaries = floors.get(smaller.name());
        floor.extend(binaries.ok_or_else(|| Fault::Unreadable(format!("no tier `{smaller}`")))?.clone());
    }
    let count = |selection: &String| counts.get(selection).copied().unwrap_or(0);
    let below: Vec<_> = floor
        .iter()
        .filter(|(selection, least)| count(selection) < **least)
        .map(|(selection, least)| (selection.clone(), count(selection), *least))
        .collect();
    if !below.is_empty() {
        return Err(Fault::Below(below));
    }
    let (all, least) = (counts.values().sum::<usize>(), floor.values().sum::<usize>());
    let hint = if all > least { "; run `cargo xtask floor` to raise it" } else { "" };
    Ok(format!("{all} tests, floor {least}{hint}"))
}

fn parse(content: &str) -> Option<BTreeMap<String, Counts>> {
    let value: Value = serde_json::from_str(content).ok()?;
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let tier = |(tier, binaries): (&String, &Value)| {
        let counts = binaries.as_object()?.iter().map(|(name, count)| Some((name.clone(), number(count)?)));
        Some((tier.clone(), counts.collect::<Option<Counts>>()?))
    };
    value.as_object()?.iter().map(tier).collect()
}

/// Reads the committed floor and compares.
pub fn check(root: &Path, tier: Tier, counts: &Counts) -> Result<String, Fault> {
    let content = fs::read_to_string(root.join(FILE)).map_err(|error| Fault::Unreadable(error.to_string()))?;
    compare(&content, tier, counts)
}

/// Lists the tests of all binaries without running them, and writes the floor file.
pub fn rewrite(root: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let workspace = Workspace::load(root)?;
    let mut floor: BTreeMap<&str, Counts> = Tier::ALL.map(|tier| (tier.name(), Counts::new())).into();
    // The feature of the full tier adds tests to binaries of the others, which then only the full tier runs.
    for built in [Tier::Default, Tier::Full] {
        let executables = lanes::executables(root, &select::targets(&workspace, built))?;
        for executable in executables.into_iter().filter(|one| (one.tier == Tier::Full) == (built == Tier::Full)) {
            let count = executable.list("")?.len();
            floor.entry(executable.tier.name()).or_default().insert(executable.selection, count);
        }
    }
    let mut arguments = select::documentation(&workspace, Tier::Full);
    arguments.extend(["--".to_owned(), "--list".to_owned()]);
    let mut command = workspace::cargo(root);
    command.args(&arguments);
    let mut lines = Vec::new();
    if !process::stream(command, |line| lines.push(line.to_owned()))?.success {
        return Err(format!("`cargo {}` failed:\n{}", arguments.join(" "), lines.join("\n")).into());
    }
    floor.entry(Tier::Fast.name()).or_default().extend(tally::listed_documentation(&lines));
    for counts in floor.values_mut() {
        counts.retain(|_, count| *count > 0);
    }
    for (tier, counts) in &floor {
        println!("{tier}: {} tests in {} binaries", counts.values().sum::<usize>(), counts.len());
    }
    let path = root.join(FILE);
    fs::write(&path, format!("{:#}\n", serde_json::json!(floor)))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str =
        r#"{"fast": {"-p a --lib": 10}, "default": {"-p a --test e2e_a": 2, "-p b --test e2e_b": 1}}"#;

    fn counts(counts: &[(&str, usize)]) -> Counts {
        counts.iter().map(|(selection, count)| ((*selection).to_owned(), *count)).collect()
    }

    #[test]
    fn a_binary_with_fewer_tests_is_named_though_another_has_more() {
        let lost = Err(Fault::Below(vec![("-p a --lib".to_owned(), 9, 10)]));
        assert_eq!(compare(CONTENT, Tier::Fast, &counts(&[("-p a --lib", 9), ("-p new --lib", 5)])), lost);
        assert_eq!(compare(CONTENT, Tier::Fast, &counts(&[("-p a --lib", 10)])), Ok("10 tests, floor 10".to_owned()));
    }

    #[test]
    fn a_tier_includes_the_binaries_of_smaller_tiers_and_a_missing_binary_is_named() {
        let fault =
            compare(CONTENT, Tier::Default, &counts(&[("-p a --lib", 12), ("-p a --test e2e_a", 2)])).unwrap_err();
        let message = "lost tests: `-p b --test e2e_b` ran 0 of 1; after an intended removal run `cargo xtask floor`";
        assert_eq!(fault.to_string(), message);
    }

    #[test]
    fn tests_above_the_floor_are_noted() {
        let note = compare(CONTENT, Tier::Fast, &counts(&[("-p a --lib", 11), ("-p new --lib", 1)])).unwrap();
        assert_eq!(note, "12 tests, floor 10; run `cargo xtask floor` to raise it");
    }

    #[test]
    fn a_floor_without_the_tier_or_in_another_format_is_an_error() {
        let missing = Fault::Unreadable("no tier `full`".to_owned());
        assert_eq!(compare(CONTENT, Tier::Full, &Counts::new()), Err(missing));
        for content in ["{", "[]", r#"{"fast": 10}"#, r#"{"fast": {"-p a --lib": "10"}}"#] {
            assert!(matches!(compare(content, Tier::Fast, &Counts::new()), Err(Fault::Unreadable(_))), "{content}");
        }
    }
}
