//! The rings of the workspace. The first folder below `crates/` is a crate's ring; it decides which other rings the crate may use.

use std::fmt;
use std::io;
use std::path::Path;

use crate::workspace::{Package, Workspace, cargo};

/// One folder below `crates/`.
#[derive(Debug, PartialEq, Eq)]
pub struct Ring {
    /// The name of the folder.
    pub folder: &'static str,
    /// The rings that its crates may have under `[dependencies]`.
    pub may_use: &'static [&'static str],
    /// Whether its crates must not depend on [`BANNED`] crates, directly or indirectly.
    pub is_pure: bool,
}

/// The rings, one row per folder.
pub const RINGS: [Ring; 6] = [
    Ring { folder: "core", may_use: &["core"], is_pure: true },
    // `local` runs its machines with `machines`. Code that joins two remote systems belongs to the engine.
    Ring { folder: "edges", may_use: &["core", "edges"], is_pure: false },
    Ring { folder: "engine", may_use: &["core", "edges"], is_pure: false },
    // Not edges: a simulator that shares code with our client would share its mistakes.
    Ring { folder: "sim", may_use: &["core", "sim"], is_pure: false },
    Ring { folder: "programs", may_use: &["core", "edges", "engine", "sim"], is_pure: false },
    Ring { folder: "dev", may_use: &["core", "edges", "dev"], is_pure: false },
];

/// A runtime, clients of outside systems, and randomness.
pub const BANNED: [&str; 5] = ["azure_core", "kube", "rand", "reqwest", "tokio"];

/// The ring of a package, from its path below `root`.
pub fn ring(root: &Path, package: &Package) -> Option<&'static Ring> {
    let below = package.manifest.strip_prefix(root.join("crates")).ok()?;
    let folder = below.components().next()?.as_os_str();
    RINGS.iter().find(|ring| folder == ring.folder)
}

/// A violation of the rings.
#[derive(Debug, PartialEq, Eq)]
pub enum Breach {
    /// A crate is outside the six folders.
    Unplaced(String),
    /// A crate depends on a crate of a ring that it may not use.
    Direction {
        /// The dependent crate.
        from: String,
        to: String,
    },
    /// A pure crate contains a banned crate.
    Impure {
        /// The pure crate.
        name: String,
        /// The banned crate.
        contains: String,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplaced(name) => write!(f, "`{name}` is not in a ring's folder below `crates/`"),
            Self::Direction { from, to } => write!(f, "the ring of `{from}` must not depend on the ring of `{to}`"),
            Self::Impure { name, contains } => write!(f, "`{name}` is in `core` but depends on `{contains}`"),
        }
    }
}

/// Violations that are visible in the manifests of the workspace at `root`.
pub fn misplaced(root: &Path, workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in &workspace.packages {
        let Some(own) = ring(root, package) else {
            breaches.push(Breach::Unplaced(package.name.clone()));
            continue;
        };
        for to in &package.dependencies {
            let used = workspace.packages.iter().find(|other| other.name == *to).and_then(|other| ring(root, other));
            if used.is_some_and(|used| !own.may_use.contains(&used.folder)) {
                breaches.push(Breach::Direction { from: package.name.clone(), to: to.clone() });
            }
        }
    }
    breaches
}

/// Violations that are only visible in the whole dependency tree of a pure crate.
pub fn impure(root: &Path, workspace: &Workspace) -> io::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for package in &workspace.packages {
        if ring(root, package).is_some_and(|ring| ring.is_pure) {
            let tree = normal_tree(root, &package.name)?;
            let found = BANNED.into_iter().filter(|banned| tree.iter().any(|name| name == banned));
            breaches
                .extend(found.map(|banned| Breach::Impure { name: package.name.clone(), contains: banned.to_owned() }));
        }
    }
    Ok(breaches)
}

/// The names of all normal dependencies of a package with its default features. `cargo metadata` would add features that other members
/// enable; `cargo tree` resolves for the package alone.
pub fn normal_tree(folder: &Path, package: &str) -> io::Result<Vec<String>> {
    let arguments =
        ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--package", package];
    let output = cargo(folder).args(arguments).output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("`cargo {}`: {}", arguments.join(" "), message.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}
