//! Small programs that stand for others.

use std::path::Path;
use std::process::Command;

/// Makes a program of lines of shell.
///
/// Another process writes it: a file that is open for writing cannot be run, and what this process has open is for a moment open in every
/// child that another test starts meanwhile.
///
/// # Panics
/// When it cannot be written.
#[track_caller]
pub fn script(path: &Path, lines: &str) {
    let mut write = Command::new("sh");
    write.args(["-ec", r#"printf '#!/bin/sh\n%s\n' "$1" >"$2"; chmod 755 "$2""#, "sh", lines]).arg(path);
    let status = write.status().unwrap_or_else(|error| panic!("sh: {error}"));
    assert!(status.success(), "{} cannot be written: {status}", path.display());
}
