//! Files that are made by a program and read by people: compared, or written anew when asked to.

use std::fs;
use std::path::Path;

/// Set to write golden files instead of comparing them; the diff is then for a person to review.
const VARIABLE: &str = "KILN_BLESS";

/// Compares a text with a committed file.
///
/// # Panics
/// When they differ, with the first line that does and the command that writes the file.
#[track_caller]
pub fn golden(path: &Path, text: &str) {
    if std::env::var_os(VARIABLE).is_some() {
        let folder = path.parent().unwrap_or(path);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    if committed == text {
        return;
    }
    let mut lines = committed.lines().zip(text.lines()).enumerate();
    let differing = lines.find(|(_, (old, new))| old != new);
    let place = match differing {
        Some((index, (old, new))) => format!("line {}:\n- {old}\n+ {new}", index + 1),
        None => format!("{} lines are committed, {} were made", committed.lines().count(), text.lines().count()),
    };
    panic!(
        "{} is not what is made now, {place}\n`{VARIABLE}=1 cargo test -p chart-tests` writes it; look at the diff",
        path.display()
    );
}
