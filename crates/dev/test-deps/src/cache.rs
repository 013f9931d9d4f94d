//! The folders of installed test dependencies. They are outside the repository, so that a fresh clone finds them.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::TestDep;

/// The folder below the user's cache folder.
const FOLDER: &str = "kiln/test-deps";

/// The folder of all installed test dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of the user who runs this process: below `$XDG_CACHE_HOME`, else below `$HOME/.cache`.
    pub fn of_user() -> Result<Self, NoCache> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// The cache for given variables. A relative `XDG_CACHE_HOME` is ignored, as the XDG specification demands.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoCache> {
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        base.map(|base| Self::at(base.join(FOLDER))).ok_or(NoCache)
    }

    /// A cache in this folder.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder with one folder per installed dependency, and their locks and logs.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for files of running test services, such as a control plane.
    pub fn run_folder(&self) -> PathBuf {
        self.root.with_file_name("run")
    }

    /// The folder of a dependency, whether or not it is installed.
    pub fn folder(&self, dependency: TestDep) -> PathBuf {
        self.root.join(format!("{dependency}-{}", dependency.key()))
    }

    /// Locked while the dependency is installed, so that two runs do not build it at once.
    pub fn lock_file(&self, dependency: TestDep) -> PathBuf {
        self.root.join(format!("{dependency}.lock"))
    }

    /// The output of the commands that install the dependency.
    pub fn log_file(&self, dependency: TestDep) -> PathBuf {
        self.root.join(format!("{dependency}.log"))
    }

    /// The program of an installed dependency. An interrupted installation lacks the `.complete` file and does not count.
    pub fn find(&self, dependency: TestDep) -> Result<PathBuf, Missing> {
        let folder = self.folder(dependency);
        let program = folder.join(dependency.program());
        // `exists` follows links: the `python` of an environment whose interpreter was removed is missing too.
        if complete_file(&folder).exists() && program.exists() {
            Ok(program)
        } else {
            Err(Missing { dependency, folder })
        }
    }

    /// Marks an installation as complete. This is its last step.
    pub fn complete(&self, dependency: TestDep) -> io::Result<()> {
        fs::write(complete_file(&self.folder(dependency)), dependency.key())
    }
}

fn complete_file(folder: &Path) -> PathBuf {
    folder.join(".complete")
}

/// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub struct NoCache;

impl fmt::Display for NoCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no cache folder for test dependencies: set `XDG_CACHE_HOME` or `HOME` to an absolute path")
    }
}

impl std::error::Error for NoCache {}

/// A test dependency is not installed.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing {
    pub dependency: TestDep,
    /// The folder in which it would be.
    pub folder: PathBuf,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dependency, folder } = self;
        let description = dependency.description();
        write!(f, "test dependency `{dependency}` ({description}) is not installed in {}", folder.display())?;
        write!(f, "\nhint: run `cargo xtask setup {dependency}`")?;
        if matches!(dependency, TestDep::Kube | TestDep::Etcd) {
            f.write_str(", or set `KUBEBUILDER_ASSETS` to a folder with the programs")?;
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
    fn cache_is_in_xdg_cache_home_or_in_home() {
        assert_eq!(
            cache_with(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]),
            Ok(Cache::at(Path::new("/c").join(FOLDER)))
        );
        assert_eq!(
            cache_with(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]),
            Ok(Cache::at(Path::new("/h/.cache").join(FOLDER)))
        );
        assert_eq!(cache_with(&[]), Err(NoCache));
    }

    #[test]
    fn incomplete_installation_is_missing_and_the_error_names_the_command() {
        let root = std::env::temp_dir().join(format!("kiln-test-deps-{}", std::process::id()));
        let cache = Cache::at(&root);
        let program = cache.folder(TestDep::CargoDeny).join("bin/cargo-deny");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "").unwrap();
        let half_installed = cache.find(TestDep::CargoDeny);
        cache.complete(TestDep::CargoDeny).unwrap();
        let installed = cache.find(TestDep::CargoDeny);
        fs::remove_file(&program).unwrap();
        let gutted = cache.find(TestDep::CargoDeny);
        fs::remove_dir_all(&root).unwrap();

        let message = half_installed.unwrap_err().to_string();
        assert!(message.contains("run `cargo xtask setup deny`"), "{message}");
        assert_eq!(installed, Ok(program));
        assert!(gutted.is_err());
    }
}
