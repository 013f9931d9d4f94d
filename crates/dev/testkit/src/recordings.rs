//! Recorded data of other projects. A test that reads it is in a module named `recordings`: see CONTRIBUTING.md.

use std::path::PathBuf;

use test_deps::Recordings;

/// Recorded inputs and outputs of AKS and Karpenter. Panics without the recorded data.
#[track_caller]
pub fn golden() -> PathBuf {
    require("golden")
}

/// The output of systemd-analyze on a recorded boot. Panics without the recorded data.
#[track_caller]
pub fn boot_samples() -> PathBuf {
    require("boot-samples")
}

/// Azure's published `OpenAPI` specifications. Tests that check exchanges in addition to something else continue without them, so they
/// are `None` without the recorded data.
///
/// # Panics
/// If the data is missing in CI, or where `KILN_RECORDINGS` is set.
#[track_caller]
pub fn azure_specs() -> Option<PathBuf> {
    let recordings = Recordings::from_environment();
    match recordings.find() {
        Ok(root) => Some(root.join("azure-specs")),
        Err(_) if !recordings.is_required() => None,
        Err(missing) => panic!("{missing}"),
    }
}

#[track_caller]
fn require(folder: &str) -> PathBuf {
    let recordings = Recordings::from_environment();
    let root = recordings.find().unwrap_or_else(|missing| {
        panic!("{missing}\nhint: set `{}` to the folder with the recorded data", Recordings::VARIABLE)
    });
    root.join(folder)
}
