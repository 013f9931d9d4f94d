//! The least number of tests that a tier must execute: a test target that silently falls out of the build is a failure.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use test_deps::Tier;

use crate::process;
use crate::select;
use crate::tally;
use crate::workspace::{self, Workspace};

/// The committed floor, from the root of the repository.
pub const FILE: &str = "tests/floor.json";

/// Fewer tests than the floor were executed, or there is no floor.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Tests are gone.
    Below {
        /// How many ran.
        executed: usize,
        /// How many must run.
        floor: usize,
    },
    /// The file cannot be used.
    Unusable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below { executed, floor } => write!(
                f,
                "{executed} tests were executed, {FILE} asks for {floor}: a test or a whole target was lost \
                 (if it was removed on purpose, `cargo xtask floor` writes the new number)"
            ),
            Self::Unusable(why) => write!(f, "{FILE}: {why}"),
        }
    }
}

/// Compares the number of executed tests with the content of the floor file.
pub fn compare(content: &str, tier: Tier, executed: usize) -> Result<usize, Fault> {
    let value: Value = serde_json::from_str(content).map_err(|error| Fault::Unusable(error.to_string()))?;
    let floor = value[tier.name()].as_u64().and_then(|floor| usize::try_from(floor).ok());
    let floor = floor.ok_or_else(|| Fault::Unusable(format!("no number for `{tier}`")))?;
    if executed < floor { Err(Fault::Below { executed, floor }) } else { Ok(floor) }
}

/// Reads the committed floor and compares.
pub fn check(root: &Path, tier: Tier, executed: usize) -> Result<usize, Fault> {
    let content = fs::read_to_string(root.join(FILE)).map_err(|error| Fault::Unusable(error.to_string()))?;
    compare(&content, tier, executed)
}

/// Lists the tests of every tier, without running them, and writes the floor file.
pub fn rewrite(root: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let workspace = Workspace::load(root)?;
    let mut floor = Map::new();
    for tier in Tier::ALL {
        let mut count = 0;
        for mut arguments in [select::targets(&workspace, tier), select::documentation(&workspace, tier)] {
            arguments.extend(["--".to_owned(), "--list".to_owned()]);
            let mut lines = Vec::new();
            let mut command = workspace::cargo(root);
            command.args(&arguments);
            if !process::stream(command, |line| lines.push(line.to_owned()))?.success {
                return Err(format!("`cargo {}` failed:\n{}", arguments.join(" "), lines.join("\n")).into());
            }
            count += tally::listed(lines.iter().map(String::as_str));
        }
        println!("{tier}: {count} tests");
        floor.insert(tier.name().to_owned(), count.into());
    }
    let path = root.join(FILE);
    fs::write(&path, format!("{:#}\n", Value::Object(floor)))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str = r#"{"fast": 10, "default": 20}"#;

    #[test]
    fn fewer_executed_tests_than_the_floor_are_a_fault() {
        assert_eq!(compare(CONTENT, Tier::Fast, 9), Err(Fault::Below { executed: 9, floor: 10 }));
        assert_eq!(compare(CONTENT, Tier::Fast, 10), Ok(10));
        assert_eq!(compare(CONTENT, Tier::Default, 25), Ok(20));
    }

    #[test]
    fn a_floor_that_lacks_the_tier_or_cannot_be_read_is_a_fault() {
        assert_eq!(compare(CONTENT, Tier::Full, 99), Err(Fault::Unusable("no number for `full`".to_owned())));
        assert!(matches!(compare("{", Tier::Fast, 99), Err(Fault::Unusable(_))));
    }
}
