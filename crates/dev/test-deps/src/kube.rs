//! Finds the programs of Kubernetes in `KUBEBUILDER_ASSETS`, else in the test dependencies `kube` and `etcd`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Cache, Missing, TestDep};

/// The lock file in [`Cache::run_folder`] that a test run locks (shared). Services that tests share run until it is unlocked.
pub const SESSION_LOCK: &str = "session.lock";

/// The programs of a control plane. The test dependency `kube` has `kubelet` too.
pub const KUBE_PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The places in which programs of Kubernetes may be.
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
        let dependency = dependency_with(program);
        self.cache.find(dependency)?;
        let folder = self.cache.folder(dependency);
        let path = folder.join("bin").join(program);
        if path.exists() { Ok(path) } else { Err(Missing { dependency, folder }) }
    }

    /// Whether the assets have all programs of a control plane that this dependency would provide, so that it is not needed.
    pub fn has_assets_of(&self, dependency: TestDep) -> bool {
        let mut programs = KUBE_PROGRAMS.iter().filter(|program| dependency_with(program) == dependency).peekable();
        programs.peek().is_some() && programs.all(|program| self.asset(program).is_some())
    }

    fn asset(&self, program: &str) -> Option<PathBuf> {
        self.assets.as_ref().map(|folder| folder.join(program)).filter(|path| path.exists())
    }
}

/// The dependency that provides a program.
fn dependency_with(program: &str) -> TestDep {
    if program == "etcd" { TestDep::Etcd } else { TestDep::Kube }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn assets_are_preferred_and_the_dependency_has_the_rest() {
        let root = std::env::temp_dir().join(format!("kiln-kube-{}", std::process::id()));
        let cache = Cache::at(root.join("test-deps"));
        let bin = |program: &str| cache.folder(dependency_with(program)).join("bin").join(program);
        let assets = root.join("assets");
        fs::create_dir_all(&assets).unwrap();
        for program in KUBE_PROGRAMS.into_iter().chain(["kiln-kube"]) {
            fs::create_dir_all(bin(program).parent().unwrap()).unwrap();
            fs::write(bin(program), "").unwrap();
        }
        cache.complete(TestDep::Kube).unwrap();
        cache.complete(TestDep::Etcd).unwrap();
        fs::write(assets.join("kubectl"), "").unwrap();
        let programs = KubePrograms::new(cache.clone(), Some(assets.clone().into()));
        let found = (programs.find("kubectl"), programs.find("kube-apiserver"), programs.find("etcd"));
        let without = KubePrograms::new(cache.clone(), Some(OsString::new())).find("kubectl");
        fs::write(assets.join("etcd"), "").unwrap();
        let replaced =
            [TestDep::Kube, TestDep::Etcd, TestDep::Helm].map(|dependency| programs.has_assets_of(dependency));
        fs::remove_dir_all(&root).unwrap();

        assert_eq!(found, (Ok(assets.join("kubectl")), Ok(bin("kube-apiserver")), Ok(bin("etcd"))));
        assert_eq!(without, Ok(bin("kubectl")));
        assert_eq!(replaced, [false, true, false]);
    }

    #[test]
    fn missing_program_error_names_both_ways_to_install_it() {
        let programs = KubePrograms::new(Cache::at("/nonexistent"), Some("/nonexistent/assets".into()));
        for (program, dependency) in [("etcd", "etcd"), ("kubectl", "kube")] {
            let message = programs.find(program).unwrap_err().to_string();
            assert!(message.contains(&format!("run `cargo xtask setup {dependency}`")), "{message}");
            assert!(message.contains("KUBEBUILDER_ASSETS"), "{message}");
        }
    }
}
