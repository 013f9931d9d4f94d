//! One control plane for all test processes of a user.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use test_deps::Cache;

use crate::authority::write;
use crate::folder::{PlanesFolder, lock_file};
use crate::{ControlPlane, Error, Options, unique};

/// The control plane that tests share, with controllers and without a scheduler. The first process that needs it starts it, the last one
/// that ends stops it; `cargo xtask test` keeps it for a whole run.
///
/// # Panics
/// If it cannot be started: a test that cannot run fails.
#[track_caller]
pub fn shared() -> &'static ControlPlane {
    static SHARED: OnceLock<ControlPlane> = OnceLock::new();
    SHARED.get_or_init(|| {
        let root = Cache::of_user().map(|cache| cache.run_folder()).map_err(Error::from);
        root.and_then(|root| join_or_start(&root)).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Joins the control plane that this folder names, or starts it. Concurrent callers wait.
fn join_or_start(run: &Path) -> Result<ControlPlane, Error> {
    fs::create_dir_all(run).map_err(Error::file(run))?;
    let lock_path = run.join("shared.lock");
    let lock = lock_file(&lock_path)?;
    lock.lock().map_err(Error::file(&lock_path))?;
    let name_file = run.join("shared");
    if let Ok(folder) = fs::read_to_string(&name_file).map(PathBuf::from) {
        // A control plane that is gone or damaged is removed by the next start after its last user has gone.
        if let Ok(Some(plane)) = ControlPlane::join(&folder) {
            return Ok(plane);
        }
    }
    let root = run.join("kube");
    let session = PlanesFolder::at(run)?.path().join(test_deps::SESSION_LOCK);
    let plane = ControlPlane::start_named(&unique("shared"), &Options::default().in_root(root), Some(session))?;
    write(&name_file, &plane.folder().display().to_string())?;
    Ok(plane)
}
