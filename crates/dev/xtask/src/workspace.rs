//! The workspace as cargo describes it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The packages of the workspace, by name.
#[derive(Debug, Default)]
pub struct Workspace {
    pub packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Default)]
pub struct Package {
    pub name: String,
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The first source file of each of its targets.
    pub sources: Vec<PathBuf>,
    /// The names of its integration tests, those with unmet features too.
    pub test_targets: Vec<String>,
    pub features: Vec<String>,
    /// What it names under `[dependencies]`, for any target, optional or not.
    pub dependencies: Vec<String>,
}

/// The root of the repository that this program was compiled in.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here).to_path_buf()
}

/// A command that runs the cargo that runs us, in this folder, without standard input.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).stdin(Stdio::null());
    // `cargo run` describes xtask in these; build scripts that watch them (ring's does) would run again for nothing.
    for (name, _) in std::env::vars_os() {
        let described =
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        if described {
            command.env_remove(name);
        }
    }
    command
}

impl Workspace {
    /// Asks cargo about the workspace in this folder.
    pub fn load(folder: &Path) -> Result<Self, Unreadable> {
        let unreadable = |what| Unreadable { folder: folder.to_owned(), what };
        // `--no-deps` reads manifests only: no network, no lock file, no resolver.
        let output = cargo(folder)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| unreadable(What::Spawn(error)))?;
        if !output.status.success() {
            return Err(unreadable(What::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())));
        }
        let value: Value = serde_json::from_slice(&output.stdout).map_err(|error| unreadable(What::Json(error)))?;
        let mut packages: Vec<Package> = entries(&value, "packages").map(Package::from_metadata).collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { packages })
    }
}

impl Package {
    fn from_metadata(value: &Value) -> Self {
        let is_test = |target: &&Value| entries(target, "kind").any(|kind| kind == "test");
        Self {
            name: text(value, "name"),
            manifest: text(value, "manifest_path").into(),
            sources: entries(value, "targets").map(|target| text(target, "src_path").into()).collect(),
            test_targets: entries(value, "targets").filter(is_test).map(|target| text(target, "name")).collect(),
            features: value["features"].as_object().into_iter().flat_map(|map| map.keys().cloned()).collect(),
            // A dependency of kind null is a normal one; the others are "dev" and "build".
            dependencies: entries(value, "dependencies")
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| text(dependency, "name"))
                .collect(),
        }
    }
}

fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Cargo could not describe the workspace.
#[derive(Debug)]
pub struct Unreadable {
    folder: PathBuf,
    what: What,
}

#[derive(Debug)]
enum What {
    Spawn(io::Error),
    Refused(String),
    Json(serde_json::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`cargo metadata` in {}: ", self.folder.display())?;
        match &self.what {
            What::Spawn(error) => write!(f, "{error}"),
            What::Refused(message) => f.write_str(message),
            What::Json(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Unreadable {}
