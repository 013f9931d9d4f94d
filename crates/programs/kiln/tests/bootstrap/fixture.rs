//! The example sources in a temporary folder, and `kiln bootstrap` running in it.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testkit::{Finished, Kiln};

/// Files of the example.
pub(crate) const FILES: [&str; 3] = ["settings.yaml", "node-pool.yaml", "node-class.yaml"];

/// Bootstrap token of the example.
pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";

/// An ed25519 key, from RFC 8410, and its public key.
pub(crate) const SIGNING_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";

/// A temporary folder with the sources of the example.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for file in FILES {
            fs::copy(example(file), folder.path().join(file)).expect("a copy of the example");
        }
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).and_then(|()| fs::write(&path, text)).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Replaces a text in a file; fails if the file does not contain it.
    pub(crate) fn replace(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} does not contain {old}");
        self.write(name, &text.replacen(old, new, 1));
    }

    /// Runs `kiln bootstrap` in the folder with additional environment variables.
    #[track_caller]
    pub(crate) fn run_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Finished {
        let kiln = Kiln::at(env!("CARGO_BIN_EXE_kiln"));
        let mut command = kiln.command(&[&["bootstrap"], arguments].concat());
        for name in kiln_bootstrap::Field::all().iter().flat_map(|field| field.reads) {
            command.env_remove(name);
        }
        command.current_dir(self.0.path()).envs(environment.iter().copied());
        testkit::run(command, std::time::Duration::from_mins(1))
    }

    /// Runs `kiln bootstrap` in the folder.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.run_with(&[], arguments)
    }

    /// Runs `kiln bootstrap` with the sources of the example.
    #[track_caller]
    pub(crate) fn with_sources(&self, arguments: &[&str]) -> Finished {
        self.run(&[arguments, &SOURCES].concat())
    }
}

pub(crate) const SOURCES: [&str; 6] =
    ["--settings", "settings.yaml", "--node-pool", "node-pool.yaml", "--node-class", "node-class.yaml"];

pub(crate) fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bootstrap/example").join(file)
}

/// Compares with a golden file; `KILN_BLESS=1` rewrites it.
#[track_caller]
pub(crate) fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bootstrap/golden").join(name);
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(&path, text).expect("a golden file is written");
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "{} is out of date:\n{text}\n-- committed\n{committed}", path.display());
}
