//! Karpenter's definitions of its objects.

use std::path::PathBuf;

use test_deps::{Cache, TestDep};

use crate::{ControlPlane, Error};

/// The files of Karpenter's definitions: `NodePool`, `NodeClaim` and the rest as Karpenter itself publishes them, and `AKSNodeClass` as its
/// provider for Azure does. The provider's module holds copies of Karpenter's own too, of the version that it was made with; they are left.
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
    /// Applies [`karpenter_crds`] and waits until the server serves them. May be done by many tests at once.
    pub fn apply_karpenter_crds(&self) -> Result<(), Error> {
        for file in karpenter_crds()? {
            let file = file.display().to_string();
            // By the server: two tests that do it at once do not conflict, and no annotation holds the file a second time.
            self.run_kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file])?;
            self.run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file])?;
        }
        Ok(())
    }
}
