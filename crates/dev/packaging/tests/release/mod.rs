//! Releases for tests.

#![expect(dead_code, reason = "each test uses a part of this module")]

pub(crate) mod install;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A script in place of kiln: it prints completions and writes manual pages.
const KILN: &str = "#!/bin/sh\ncase $1 in\ncompletions) echo \"complete for $2\" ;;\nman) echo .TH kiln >$2/kiln.1 ;;\n*) echo kiln ;;\nesac\n";
const KILND: &str = "#!/bin/sh\nprintf 'kilnd: a node\\n\\nUsage: kilnd COMMAND\\n'\n";

/// The source tree.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the workspace").to_path_buf()
}

/// Writes a folder for `--programs`, with scripts in place of the programs.
pub(crate) fn scripts(folder: &Path) {
    for architecture in ["amd64", "arm64"] {
        for (name, text) in [("kiln", KILN), ("kilnd", KILND)] {
            // The architectures differ, as real programs do.
            executable(&folder.join(architecture).join(name), format!("{text}# {architecture}\n").as_bytes());
        }
    }
}

/// Writes an executable file.
pub(crate) fn executable(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("changed");
}

/// A program of the workspace, compiled with the profile `dev` and without its debug information.
pub(crate) fn program(name: &str, to: &Path) {
    let path = Path::new(env!("CARGO_BIN_EXE_dist")).with_file_name(name);
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo).args(["build", "--offline", "--package", name]).current_dir(root()).status();
        assert!(built.is_ok_and(|status| status.success()) && path.exists(), "`{}` was not built", path.display());
    }
    executable(to, b"");
    let stripped = Command::new("strip").args(["--strip-all", "-o"]).arg(to).arg(&path).status();
    assert!(stripped.is_ok_and(|status| status.success()), "cannot strip `{}`", path.display());
}

/// Runs `dist`, which must succeed. `prepare` changes the command.
#[track_caller]
pub(crate) fn dist(output: &Path, prepare: impl FnOnce(&mut Command)) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dist"));
    command.arg("--out").arg(output);
    prepare(&mut command);
    let finished = command.output().expect("started");
    assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
}

/// Names, modes and bytes of all files of a release.
pub(crate) fn contents(folder: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<_> = entries
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o111;
            (name, mode, fs::read(&path).expect("a file"))
        })
        .collect();
    all.sort();
    all
}
