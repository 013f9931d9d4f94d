//! The state folder: the world's file, its log, the certificates, and while it runs how it is reached.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use kiln_sim_azure::WorldSpec;
use tempfile::TempDir;

use crate::failure::Failure;

const WORLD: &str = "world.json";
const ENDPOINT: &str = "endpoint.json";
const TLS: &str = "tls";
const KUBECONFIG: &str = "kubeconfig";
const TOKEN: &str = "token";

/// The world of a folder: what it holds already, or what the user gave.
pub(crate) fn world(folder: Option<&Path>, given: Option<(&Path, WorldSpec)>) -> Result<WorldSpec, Failure> {
    let kept = match folder {
        Some(folder) => read_world(&folder.join(WORLD))?,
        None => None,
    };
    match (kept, given) {
        (Some((path, kept)), Some((file, given))) if kept != given => Err(Failure::file(
            file,
            format_args!(
                "this is not the world that {} holds; leave `--world` out to go on with that one, or take another `--state`",
                path.display()
            ),
        )),
        (Some((_, kept)), _) => Ok(kept),
        (None, Some((_, given))) => Ok(given),
        (None, None) => Ok(WorldSpec::default()),
    }
}

fn read_world(path: &Path) -> Result<Option<(PathBuf, WorldSpec)>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let spec = WorldSpec::parse(&path.display().to_string(), &text).map_err(Failure::input)?;
            Ok(Some((path.to_owned(), spec)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::file(path, error)),
    }
}

/// A folder in use.
pub(crate) enum Folder {
    /// Gone when the program ends.
    Temporary(TempDir),
    /// The user's own. What this start added is taken away again if the start fails.
    Kept { path: PathBuf, added: Vec<PathBuf> },
}

impl Folder {
    /// The folder, made if need be, with the world's file in it.
    pub(crate) fn open(path: Option<&Path>, spec: &WorldSpec) -> Result<Self, Failure> {
        let Some(path) = path else {
            let folder = tempfile::Builder::new().prefix("kiln-sim-").tempdir();
            return folder
                .map(Self::Temporary)
                .map_err(|error| Failure::failed(format_args!("temporary folder: {error}")));
        };
        let path = std::path::absolute(path).map_err(|error| Failure::file(path, error))?;
        let mut added: Vec<PathBuf> = [WORLD, "world.log", TLS, "cluster.log", TOKEN, KUBECONFIG]
            .into_iter()
            .map(|name| path.join(name))
            .filter(|path| !path.exists())
            .collect();
        if !path.exists() {
            added.push(path.clone());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|error| Failure::file(&path, error))?;
        let folder = Self::Kept { path: path.clone(), added };
        let world = path.join(WORLD);
        if !world.exists() {
            let text = serde_json::to_string_pretty(spec).map_err(|error| Failure::file(&world, error))?;
            private(&world, &text)?;
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept { path, .. } => path,
        }
    }

    /// Where the certificates are.
    pub(crate) fn tls(&self) -> PathBuf {
        self.path().join(TLS)
    }

    /// Where the way into the cluster is written, and what opens it.
    pub(crate) fn kubeconfig(&self) -> (PathBuf, PathBuf) {
        (self.path().join(KUBECONFIG), self.path().join(TOKEN))
    }

    /// Whatever comes, nothing in the folder is taken away.
    pub(crate) fn leave(&mut self) {
        if let Self::Kept { added, .. } = self {
            added.clear();
        }
    }

    /// The start worked: what it added stays. The line that says how to reach the world is kept beside it.
    pub(crate) fn announce(&mut self, line: &str) -> Result<(), Failure> {
        let Self::Kept { path, added } = self else { return Ok(()) };
        let endpoint = path.join(ENDPOINT);
        private(&endpoint, &format!("{line}\n"))?;
        // From here on only what leads to a server that is no more goes when the program ends.
        *added = vec![endpoint, path.join(KUBECONFIG)];
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Self::Kept { added, .. } = self else { return };
        for path in added {
            // What is not there was not made; what cannot be removed is named by the error that brought us here, if any.
            let _ = if path.is_dir() { fs::remove_dir_all(&*path) } else { fs::remove_file(&*path) };
        }
    }
}

/// How the world of a state folder is reached, if one is served.
pub(crate) fn endpoint(folder: &Path) -> PathBuf {
    folder.join(ENDPOINT)
}

/// Writes a file that only its owner can read, whole or not at all.
fn private(path: &Path, text: &str) -> Result<(), Failure> {
    let fail = |error| Failure::file(path, error);
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new).map_err(fail)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path)).map_err(fail)
}
