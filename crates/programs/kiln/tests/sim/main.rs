//! `kiln sim` as users run it: the built program, real sockets, real signals.

mod bad_input;
mod env;
mod http;
mod serve;
mod state;

use std::path::Path;

use testkit::Kiln;

fn kiln() -> Kiln {
    Kiln::at(env!("CARGO_BIN_EXE_kiln"))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A path as an argument.
fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have names in UTF-8")
}

/// All files below a folder with their contents.
fn contents(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).expect("a file")));
        }
    }
    found.sort();
    found
}
