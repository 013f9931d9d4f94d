//! Karpenter's CRDs.

use std::path::PathBuf;

use test_deps::{Cache, TestDep};

use crate::{ControlPlane, Error};

/// The files of Karpenter's CRDs: `NodePool`, `NodeClaim` and others as Karpenter publishes them, and `AKSNodeClass` of the Azure
/// provider. The provider's module also has copies of Karpenter's own CRDs, of an older version; those are not used.
pub fn karpenter_crds() -> Result<Vec<PathBuf>, Error> {
    let one = Cache::of_user()?.find(TestDep::KarpenterCrds)?;
    let folder = one.parent().unwrap_or(&one);
    let entries = std::fs::read_dir(folder).map_err(Error::file(folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.push(Cache::of_user()?.find(TestDep::KarpenterAzureCrds)?);
    Ok(files)
}

impl ControlPlane {
    /// Applies [`karpenter_crds`] and waits until the server serves them. Concurrent calls are safe.
    pub fn apply_karpenter_crds(&self) -> Result<(), Error> {
        for file in karpenter_crds()? {
            let file = file.display().to_string();
            // Server-side: concurrent tests do not conflict, and no annotation contains a copy of the file.
            self.run_kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file])?;
            self.run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file])?;
        }
        Ok(())
    }
}
