//! The workspace according to `cargo metadata`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The packages of the workspace, sorted by name.
#[derive(Debug, Default)]
pub struct Workspace {
    pub packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Default)]
pub struct Package {
    pub name: String,
    /// The path of its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The first source file of each of its targets.
    pub sources: Vec<PathBuf>,
    /// The names of its integration tests, including those that require a feature.
    pub test_targets: Vec<String>,
    pub features: Vec<String>,
    /// The names under `[dependencies]` for all targets, including optional ones.
    pub dependencies: Vec<String>,
}

/// The root of the repository that this program was compiled in.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here).to_path_buf()
}

/// A command that runs the cargo of this process in a folder, without standard input.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).stdin(Stdio::null());
    // `cargo run` sets these for xtask. Build scripts that watch them (as ring's does) would run again needlessly.
    for (name, _) in std::env::vars_os() {
        let is_about_xtask =
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        if is_about_xtask {
            command.env_remove(name);
        }
    }
    command
}

impl Workspace {
    /// Loads the workspace in this folder.
    pub fn load(folder: &Path) -> Result<Self, Unreadable> {
        let unreadable = |cause| Unreadable { folder: folder.to_owned(), cause };
        // With `--no-deps` cargo reads only manifests: no network, no lock file, no resolver.
        let output = cargo(folder)
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .map_err(|error| unreadable(Cause::Spawn(error)))?;
        if !output.status.success() {
            return Err(unreadable(Cause::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned())));
        }
        let value: Value = serde_json::from_slice(&output.stdout).map_err(|error| unreadable(Cause::Json(error)))?;
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
            // Normal dependencies have no kind; others are "dev" or "build".
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

/// The error of a failed `cargo metadata`.
#[derive(Debug)]
pub struct Unreadable {
    folder: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Spawn(io::Error),
    Refused(String),
    Json(serde_json::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`cargo metadata` in {}: ", self.folder.display())?;
        match &self.cause {
            Cause::Spawn(error) => write!(f, "{error}"),
            Cause::Refused(message) => f.write_str(message),
            Cause::Json(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Unreadable {}
