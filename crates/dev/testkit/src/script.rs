//! Shell scripts in place of other programs.

use std::path::Path;
use std::process::Command;

/// Writes an executable shell script.
///
/// Another process writes it, because a file that is open for writing cannot be executed: the files that this process has open are also open,
/// for a moment, in every child that another test starts.
///
/// # Panics
/// When it cannot be written.
#[track_caller]
pub fn script(path: &Path, lines: &str) {
    let mut write = Command::new("sh");
    write.args(["-ec", r#"printf '#!/bin/sh\n%s\n' "$1" >"$2"; chmod 755 "$2""#, "sh", lines]).arg(path);
    let status = write.status().unwrap_or_else(|error| panic!("sh: {error}"));
    assert!(status.success(), "cannot write `{}`: {status}", path.display());
}
