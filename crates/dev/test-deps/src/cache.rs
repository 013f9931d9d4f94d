//! Where installed parts stand: outside the tree, so that a fresh checkout finds them.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Part;

/// The folder of all installed parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/kiln/parts`, else `$HOME/.cache/kiln/parts`.
    pub fn of_user() -> Result<Self, NoCache> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// The same from given variables. A relative `XDG_CACHE_HOME` is ignored, as its specification asks.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoCache> {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        base.map(|base| Self::at(base.join("kiln/parts"))).ok_or(NoCache)
    }

    /// A cache in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder of all parts.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where what runs for a while keeps its files: beside the parts.
    pub fn run_folder(&self) -> PathBuf {
        self.root.with_file_name("run")
    }

    /// The folder of a part, whether or not it is there.
    pub fn folder(&self, part: Part) -> PathBuf {
        self.root.join(format!("{part}-{}", part.key()))
    }

    /// Held while a part is installed, so that two runs do not build it at once.
    pub fn lock_file(&self, part: Part) -> PathBuf {
        self.root.join(format!("{part}.lock"))
    }

    /// Where the installation of a part writes what its commands print.
    pub fn log_file(&self, part: Part) -> PathBuf {
        self.root.join(format!("{part}.log"))
    }

    /// The program of an installed part. An interrupted installation does not count: its mark is missing.
    pub fn find(&self, part: Part) -> Result<PathBuf, Missing> {
        let folder = self.folder(part);
        let program = folder.join(part.program());
        // `exists` follows links: the `python` of an environment whose interpreter was removed is missing too.
        if mark(&folder).exists() && program.exists() { Ok(program) } else { Err(Missing { part, folder }) }
    }

    /// Marks a part's folder as complete. Done last.
    pub fn complete(&self, part: Part) -> io::Result<()> {
        fs::write(mark(&self.folder(part)), part.key())
    }
}

fn mark(folder: &Path) -> PathBuf {
    folder.join(".complete")
}

/// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub struct NoCache;

impl fmt::Display for NoCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no folder for parts: set XDG_CACHE_HOME or HOME to an absolute path")
    }
}

impl std::error::Error for NoCache {}

/// A part is not installed.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    pub part: Part,
    /// Where it was looked for.
    pub folder: PathBuf,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, folder } = self;
        let what = part.description();
        write!(f, "part `{part}` ({what}) is not in {}: run `cargo xtask setup {part}`", folder.display())?;
        if *part == Part::Kube {
            f.write_str(", or set KUBEBUILDER_ASSETS to a folder that holds the programs")?;
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_with(variables: &[(&str, &str)]) -> Result<Cache, NoCache> {
        Cache::from_variables(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_cache_follows_xdg_and_falls_back_to_home() {
        assert_eq!(cache_with(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]), Ok(Cache::at("/c/kiln/parts")));
        assert_eq!(cache_with(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]), Ok(Cache::at("/h/.cache/kiln/parts")));
        assert_eq!(cache_with(&[]), Err(NoCache));
    }

    #[test]
    fn a_part_without_its_mark_is_missing_and_the_error_says_what_to_run() {
        let root = std::env::temp_dir().join(format!("kiln-parts-{}", std::process::id()));
        let cache = Cache::at(&root);
        let program = cache.folder(Part::CargoDeny).join("bin/cargo-deny");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        let half_installed = cache.find(Part::CargoDeny);
        cache.complete(Part::CargoDeny).unwrap();
        let installed = cache.find(Part::CargoDeny);
        fs::remove_file(&program).unwrap();
        let gutted = cache.find(Part::CargoDeny);
        fs::remove_dir_all(&root).unwrap();

        let message = half_installed.unwrap_err().to_string();
        assert!(message.contains("run `cargo xtask setup deny`"), "{message}");
        assert_eq!(installed, Ok(program));
        assert!(gutted.is_err());
    }
}
