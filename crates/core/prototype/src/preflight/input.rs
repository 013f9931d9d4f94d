//! The input of the preflight check.

use kiln_types::{DefinitionName, ImageDefinition, ImageVersion, Inspection, Instance, Lock, Node, OsDisk, Pool};

use crate::diff::VersionFacts;
use crate::run::RunOptions;

/// Whether the original recipe is available for `rollback --to original`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginalState {
    Saved,
    CanBeSaved,
    /// It cannot be saved, for this reason.
    Lost(String),
}

/// Everything that is read before a run changes anything.
#[derive(Debug, Clone, Copy)]
pub struct PreflightInput<'a> {
    pub pool: &'a Pool,
    /// The donor's instance, if the pool has it.
    pub instance: Option<&'a Instance>,
    /// The donor's OS disk.
    pub disk: Option<&'a OsDisk>,
    pub node: &'a Node,
    /// The inspection of the donor, or why it failed.
    pub inspection: Result<&'a Inspection, &'a str>,
    /// The name of the pool's first image definition.
    pub definition_name: &'a DefinitionName,
    /// The existing definitions with one of the [`definition_names`](super::definition_names).
    pub definitions: &'a [ImageDefinition],
    /// The versions of the definition in use.
    pub versions: &'a [ImageVersion],
    /// Contents of versions, as far as they were stored.
    pub contents: &'a [VersionFacts],
    pub original: &'a OriginalState,
    /// The secret parts of the recipe for a canary that joins by it, or why there are none.
    pub canary_secrets: Result<(), &'a str>,
    /// The node that kiln runs on.
    pub own_node: Option<&'a str>,
    /// The run that is resumed.
    pub own_run: Option<&'a str>,
    /// kamino's running jobs, as `namespace/name`.
    pub kamino_jobs: &'a [String],
    /// Locks that kured holds, as text.
    pub kured_locks: &'a [String],
    pub missing_permissions: &'a [String],
    /// The locks that apply to the pool, or why they could not be read.
    pub locks: Result<&'a [Lock], &'a str>,
    /// Regions of `--target-regions` that the cloud does not have.
    pub unknown_regions: &'a [String],
    /// The options of the run, with its consents.
    pub options: &'a RunOptions,
    pub today: jiff::civil::Date,
}
