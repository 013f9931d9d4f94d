//! What preflight looks at.

use kiln_node_plan::Inspection;
use kiln_types::{DefinitionName, ImageDefinition, ImageVersion, Instance, OsDisk, Pool};

use crate::diff::VersionFacts;
use crate::donor::NodeFacts;

/// Whether the recipe before the first run is there for the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    /// It is kept.
    Saved,
    /// It can be kept now.
    CanBeSaved,
    /// It cannot.
    Lost(String),
}

/// Everything that a run looks at before it touches anything.
#[derive(Debug, Clone, Copy)]
pub struct Preflight<'a> {
    pub pool: &'a Pool,
    /// The donor's machine, if the pool has one of that name.
    pub instance: Option<&'a Instance>,
    /// The donor's OS disk.
    pub disk: Option<&'a OsDisk>,
    pub node: &'a NodeFacts,
    /// The donor's inside, or why it could not be read.
    pub inside: Result<&'a Inspection, &'a str>,
    /// The line that the pool has by its name.
    pub definition_name: &'a DefinitionName,
    /// The lines that exist under the names of [`definition_names`](super::definition_names).
    pub lines: &'a [ImageDefinition],
    /// The versions of the line in use.
    pub versions: &'a [ImageVersion],
    /// What is in versions of the line, as far as it was kept.
    pub contents: &'a [VersionFacts],
    /// Whether there is a way back to before the first run.
    pub original: &'a Original,
    /// The node that this program runs on.
    pub own_node: Option<&'a str>,
    /// The run that asks, when it goes on with one.
    pub own_run: Option<&'a str>,
    /// kamino's jobs that are alive, as `namespace/name`.
    pub kamino: &'a [String],
    /// What may not be done, one line each.
    pub missing: &'a [String],
    /// `--force`.
    pub force: bool,
    /// `--allow-empty-pool`.
    pub allow_empty_pool: bool,
    pub today: jiff::civil::Date,
}
