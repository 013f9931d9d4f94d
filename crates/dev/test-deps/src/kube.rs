//! Where the programs of Kubernetes stand: in `KUBEBUILDER_ASSETS`, else in the part.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Cache, Missing, Part};

/// The lock in [`Cache::run_folder`] that a whole test run holds, shared: what tests share stays until it ends.
pub const SESSION_LOCK: &str = "session.lock";

/// The programs that a control plane needs; the part holds `kubelet` too.
pub const KUBE_PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// Finds the programs of Kubernetes.
#[derive(Clone, Debug)]
pub struct KubePrograms {
    cache: Cache,
    assets: Option<PathBuf>,
}

impl KubePrograms {
    /// By this process' own `KUBEBUILDER_ASSETS`.
    pub fn of_user(cache: Cache) -> Self {
        Self::new(cache, std::env::var_os("KUBEBUILDER_ASSETS"))
    }

    /// By a given `KUBEBUILDER_ASSETS`; an empty one is none.
    pub fn new(cache: Cache, assets: Option<OsString>) -> Self {
        Self { cache, assets: assets.filter(|value| !value.is_empty()).map(PathBuf::from) }
    }

    /// A program. Assets made for other tools often lack some; those come from the part.
    pub fn find(&self, program: &str) -> Result<PathBuf, Missing> {
        if let Some(path) = self.asset(program) {
            return Ok(path);
        }
        self.cache.find(Part::Kube)?;
        let folder = self.cache.folder(Part::Kube);
        let path = folder.join("bin").join(program);
        if path.exists() { Ok(path) } else { Err(Missing { part: Part::Kube, folder }) }
    }

    /// Whether the assets hold all of [`KUBE_PROGRAMS`], so that nothing need be built.
    pub fn are_given(&self) -> bool {
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
    fn assets_win_where_they_have_the_program_and_the_part_fills_the_rest() {
        let root = std::env::temp_dir().join(format!("kiln-kube-{}", std::process::id()));
        let cache = Cache::at(root.join("parts"));
        let part = cache.folder(Part::Kube).join("bin");
        let assets = root.join("assets");
        fs::create_dir_all(&part).unwrap();
        fs::create_dir_all(&assets).unwrap();
        for program in KUBE_PROGRAMS.into_iter().chain(["kiln-kube"]) {
            fs::write(part.join(program), "").unwrap();
        }
        cache.complete(Part::Kube).unwrap();
        fs::write(assets.join("kubectl"), "").unwrap();
        let programs = KubePrograms::new(cache.clone(), Some(assets.clone().into()));
        let found = (programs.find("kubectl"), programs.find("etcd"), programs.are_given());
        let without = KubePrograms::new(cache, Some(OsString::new())).find("kubectl");
        fs::remove_dir_all(&root).unwrap();

        assert_eq!(found, (Ok(assets.join("kubectl")), Ok(part.join("etcd")), false));
        assert_eq!(without, Ok(part.join("kubectl")));
    }

    #[test]
    fn a_program_that_is_nowhere_is_answered_with_both_ways_to_get_it() {
        let programs = KubePrograms::new(Cache::at("/nonexistent"), Some("/nonexistent/assets".into()));
        let message = programs.find("etcd").unwrap_err().to_string();
        assert!(message.contains("run `cargo xtask setup kube`"), "{message}");
        assert!(message.contains("KUBEBUILDER_ASSETS"), "{message}");
    }
}
