//! Finds the programs of Kubernetes in `KUBEBUILDER_ASSETS`, else in the test dependency `kube`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Cache, Missing, TestDep};

/// The lock file in [`Cache::run_folder`] that a test run locks (shared). Services that tests share run until it is unlocked.
pub const SESSION_LOCK: &str = "session.lock";

/// The programs of a control plane. The test dependency has `kubelet` too.
pub const KUBE_PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The two places in which programs of Kubernetes may be.
#[derive(Clone, Debug)]
pub struct KubePrograms {
    cache: Cache,
    assets: Option<PathBuf>,
}

impl KubePrograms {
    /// Uses this process's `KUBEBUILDER_ASSETS`.
    pub fn of_user(cache: Cache) -> Self {
        Self::new(cache, std::env::var_os("KUBEBUILDER_ASSETS"))
    }

    /// Uses a given `KUBEBUILDER_ASSETS`. An empty value counts as unset.
    pub fn new(cache: Cache, assets: Option<OsString>) -> Self {
        Self { cache, assets: assets.filter(|value| !value.is_empty()).map(PathBuf::from) }
    }

    /// Finds one program. Assets installed for other tools often lack some programs, which then come from the test dependency.
    pub fn find(&self, program: &str) -> Result<PathBuf, Missing> {
        if let Some(path) = self.asset(program) {
            return Ok(path);
        }
        self.cache.find(TestDep::Kube)?;
        let folder = self.cache.folder(TestDep::Kube);
        let path = folder.join("bin").join(program);
        if path.exists() { Ok(path) } else { Err(Missing { dependency: TestDep::Kube, folder }) }
    }

    /// Whether the assets have all of [`KUBE_PROGRAMS`], so that the test dependency is not needed.
    pub fn has_all_assets(&self) -> bool {
        KUBE_PROGRAMS.iter().all(|program| self.asset(program).is_some())
    }

    fn asset(&self, program: &str) -> Option<PathBuf> {
        self.assets.as_ref().map(|folder| folder.join(program)).filter(|path| path.exists())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn assets_are_preferred_and_the_dependency_has_the_rest() {
        let root = std::env::temp_dir().join(format!("kiln-kube-{}", std::process::id()));
        let cache = Cache::at(root.join("test-deps"));
        let bin = cache.folder(TestDep::Kube).join("bin");
        let assets = root.join("assets");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&assets).unwrap();
        for program in KUBE_PROGRAMS.into_iter().chain(["kiln-kube"]) {
            fs::write(bin.join(program), "").unwrap();
        }
        cache.complete(TestDep::Kube).unwrap();
        fs::write(assets.join("kubectl"), "").unwrap();
        let programs = KubePrograms::new(cache.clone(), Some(assets.clone().into()));
        let found = (programs.find("kubectl"), programs.find("etcd"), programs.has_all_assets());
        let without = KubePrograms::new(cache, Some(OsString::new())).find("kubectl");
        fs::remove_dir_all(&root).unwrap();

        assert_eq!(found, (Ok(assets.join("kubectl")), Ok(bin.join("etcd")), false));
        assert_eq!(without, Ok(bin.join("kubectl")));
    }

    #[test]
    fn missing_program_error_names_both_ways_to_install_it() {
        let programs = KubePrograms::new(Cache::at("/nonexistent"), Some("/nonexistent/assets".into()));
        let message = programs.find("etcd").unwrap_err().to_string();
        assert!(message.contains("run `cargo xtask setup kube`"), "{message}");
        assert!(message.contains("KUBEBUILDER_ASSETS"), "{message}");
    }
}
