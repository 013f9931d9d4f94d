//! The rings of the workspace: which crate may use which, and what the pure ones must not contain.

use std::fmt;
use std::io;
use std::path::Path;

use crate::workspace::{Workspace, cargo};

/// A ring. Decisions are pure, ports are nouns and traits, edges touch one outside system each, drivers turn decisions into
/// actions, programs only wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// No runtime, no I/O, no clock, no randomness.
    Pure,
    /// Nouns and traits; as free of outside things as the pure ring.
    Port,
    /// What several outer rings share and that touches nothing by itself.
    Base,
    /// One outside system each.
    Edge,
    /// Between decisions and edges.
    Driver,
    /// Simulated outsides.
    World,
    /// Only wire.
    Program,
    /// Of the repository, never of the product.
    Tool,
}

use Ring::{Base, Driver, Edge, Port, Program, Pure, Tool, World};

/// The ring of every crate.
pub const TABLE: [(&str, Ring); 27] = [
    ("kiln-api", Pure),
    ("kiln-contracts", Pure),
    ("kiln-bootstrap", Pure),
    ("kiln-prototype", Pure),
    ("kiln-node-plan", Pure),
    ("kiln-boot", Pure),
    ("kiln-cloud", Port),
    ("kiln-tls", Base),
    ("kiln-azure", Edge),
    ("kiln-local", Edge),
    ("kiln-cluster", Edge),
    ("kiln-guest", Edge),
    ("kiln-host", Edge),
    ("kiln-node-client", Edge),
    ("kiln-operate", Driver),
    ("kiln-keep", World),
    ("kiln-sim", World),
    ("kiln-sim-kube", World),
    ("kiln", Program),
    ("kilnd", Program),
    ("chart-tests", Tool),
    ("control-plane", Tool),
    ("lab", Tool),
    ("parts", Tool),
    ("ship", Tool),
    ("testkit", Tool),
    ("xtask", Tool),
];

/// What no pure or port crate may contain, however far down: a runtime, clients of outside systems, randomness.
pub const BANNED: [&str; 5] = ["azure_core", "kube", "rand", "reqwest", "tokio"];

impl Ring {
    /// The ring of a crate.
    pub fn of(name: &str) -> Option<Self> {
        TABLE.into_iter().find(|(known, _)| *known == name).map(|(_, ring)| ring)
    }

    /// The rings that a crate of this ring may name under `[dependencies]`.
    pub fn may_use(self) -> &'static [Self] {
        match self {
            // Decisions speak in the nouns of the ports, which are held to the same purity.
            Pure => &[Port, Pure],
            Port => &[Port],
            Base => &[Base],
            // Not other edges: what joins two outside systems is a driver's work.
            Edge => &[Pure, Port, Base],
            Driver => &[Pure, Port, Base, Edge, Driver],
            // Not edges: a simulator that shares our client's code would share its mistakes.
            World => &[Pure, Port, Base, World],
            Program => &[Pure, Port, Base, Edge, Driver, World],
            Tool => &[Tool],
        }
    }

    /// Whether crates of this ring are held to [`BANNED`].
    pub fn is_pure(self) -> bool {
        matches!(self, Pure | Port)
    }
}

/// A breach of the rings.
#[derive(Debug, PartialEq, Eq)]
pub enum Breach {
    /// A crate has no row in the table.
    Unplaced(String),
    /// A crate uses one that its ring may not use.
    Direction {
        /// The user.
        from: String,
        /// The used.
        to: String,
    },
    /// A pure crate contains a banned one.
    Impure {
        /// The pure crate.
        name: String,
        /// The banned one.
        contains: String,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unplaced(name) => write!(f, "`{name}` has no row in the table of rings"),
            Self::Direction { from, to } => {
                let ring = |name| Ring::of(name).map_or_else(String::new, |ring| format!("{ring:?}"));
                write!(f, "`{from}` ({}) must not depend on `{to}` ({})", ring(from), ring(to))
            }
            Self::Impure { name, contains } => write!(f, "`{name}` is pure but contains `{contains}`"),
        }
    }
}

/// Breaches that the manifests show.
pub fn misplaced(workspace: &Workspace) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for package in &workspace.packages {
        let Some(ring) = Ring::of(&package.name) else {
            breaches.push(Breach::Unplaced(package.name.clone()));
            continue;
        };
        for to in &package.dependencies {
            if Ring::of(to).is_some_and(|used| !ring.may_use().contains(&used)) {
                breaches.push(Breach::Direction { from: package.name.clone(), to: to.clone() });
            }
        }
    }
    breaches
}

/// Breaches that only the whole tree of a pure crate shows.
pub fn impure(folder: &Path, workspace: &Workspace) -> io::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for package in &workspace.packages {
        if Ring::of(&package.name).is_some_and(Ring::is_pure) {
            let tree = normal_tree(folder, &package.name)?;
            let found = BANNED.into_iter().filter(|banned| tree.iter().any(|name| name == banned));
            breaches
                .extend(found.map(|banned| Breach::Impure { name: package.name.clone(), contains: banned.to_owned() }));
        }
    }
    Ok(breaches)
}

/// The names of all crates below a package by normal dependencies, with its default features. `cargo metadata` would mix in the
/// features that the other members ask for; `cargo tree` resolves for the package alone.
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
