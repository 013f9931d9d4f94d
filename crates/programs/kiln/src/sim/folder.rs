//! The state folder: world file, log, certificates, and the endpoint while the embedded Azure runs.

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

/// The world in the state folder, otherwise the one given by the user, otherwise the default.
pub(crate) fn world(folder: Option<&Path>, given: Option<(&Path, WorldSpec)>) -> Result<WorldSpec, Failure> {
    let existing = match folder {
        Some(folder) => read_world(&folder.join(WORLD))?,
        None => None,
    };
    match (existing, given) {
        (Some((path, existing)), Some((file, given))) if existing != given => {
            Err(Failure::file(file, format_args!("differs from the world in {}", path.display()))
                .hint("omit `--world` to continue with the existing world, or use another `--state` folder"))
        }
        (Some((_, existing)), _) => Ok(existing),
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

/// The folder of a running embedded Azure.
pub(crate) enum Folder {
    /// Deleted when the program ends.
    Temporary(TempDir),
    /// A folder of the user. If the start fails, the files that it added are deleted.
    Kept { path: PathBuf, added: Vec<PathBuf> },
}

impl Folder {
    /// Creates the folder if necessary and writes the world file.
    pub(crate) fn open(path: Option<&Path>, spec: &WorldSpec) -> Result<Self, Failure> {
        let Some(path) = path else {
            let folder = tempfile::Builder::new().prefix("kiln-sim-").tempdir();
            return folder
                .map(Self::Temporary)
                .map_err(|error| Failure::failed(format_args!("cannot create a temporary folder: {error}")));
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
            write_private(&world, &text)?;
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Kept { path, .. } => path,
        }
    }

    /// The folder of the certificates.
    pub(crate) fn tls(&self) -> PathBuf {
        self.path().join(TLS)
    }

    /// The paths of the kubeconfig and of its token.
    pub(crate) fn kubeconfig(&self) -> (PathBuf, PathBuf) {
        (self.path().join(KUBECONFIG), self.path().join(TOKEN))
    }

    /// Keeps all files, even if the start fails.
    pub(crate) fn keep(&mut self) {
        if let Self::Kept { added, .. } = self {
            added.clear();
        }
    }

    /// Called after a successful start: keeps the added files and writes the endpoint file.
    pub(crate) fn write_endpoint(&mut self, line: &str) -> Result<(), Failure> {
        let Self::Kept { path, added } = self else { return Ok(()) };
        let endpoint = path.join(ENDPOINT);
        write_private(&endpoint, &format!("{line}\n"))?;
        // When the program ends, only the files that point to the server are deleted.
        *added = vec![endpoint, path.join(KUBECONFIG)];
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let Self::Kept { added, .. } = self else { return };
        for path in added {
            // A missing file was never created. Other errors are ignored: the error that ended the program matters more.
            let _ = if path.is_dir() { fs::remove_dir_all(&*path) } else { fs::remove_file(&*path) };
        }
    }
}

/// The endpoint file of a state folder. It exists while the embedded Azure runs.
pub(crate) fn endpoint(folder: &Path) -> PathBuf {
    folder.join(ENDPOINT)
}

/// Writes a file with mode 0600 atomically.
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let fail = |error| Failure::file(path, error);
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new).map_err(fail)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&new, path)).map_err(fail)
}
