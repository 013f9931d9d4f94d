//! Golden files: compared with the generated text, or rewritten on request.

use std::fs;
use std::path::Path;

/// Set to rewrite golden files instead of comparing them; the diff must then be reviewed.
const VARIABLE: &str = "KILN_BLESS";

/// Compares a text with a committed file.
///
/// # Panics
/// If they differ, with the first differing line and the command that rewrites the file.
#[track_caller]
pub fn golden(path: &Path, text: &str) {
    if std::env::var_os(VARIABLE).is_some() {
        let folder = path.parent().unwrap_or(path);
        let result = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
        result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    if committed == text {
        return;
    }
    let mut lines = committed.lines().zip(text.lines()).enumerate();
    let differing = lines.find(|(_, (old, new))| old != new);
    let difference = match differing {
        Some((index, (old, new))) => format!("line {}:\n- {old}\n+ {new}", index + 1),
        None => format!("{} lines are committed, {} were generated", committed.lines().count(), text.lines().count()),
    };
    panic!(
        "{} is out of date, {difference}\nhint: rewrite it with `{VARIABLE}=1 cargo test -p chart-tests` and review the diff",
        path.display()
    );
}
