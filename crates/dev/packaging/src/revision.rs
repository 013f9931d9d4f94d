//! The commit that a release is built from.

use std::path::Path;
use std::process::{Command, Stdio};

/// Everything that a release is made from.
const SOURCES: [&str; 8] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo", "crates", "units", "charts", "LICENSE"];

/// The commit, unless sources have uncommitted changes: then the label would be wrong.
pub fn revision(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    if changed.is_empty() { git(&["rev-parse", "HEAD"]) } else { None }
}
