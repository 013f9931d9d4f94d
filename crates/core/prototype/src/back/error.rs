//! Why there is no way back.

use kiln_types::VersionNumber;

/// Why there is no way back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackError {
    /// New nodes do not come from the line.
    #[error(
        "new nodes of `{pool}` are made from {from}, not from a version of its line: there is nothing to roll back"
    )]
    Elsewhere {
        pool: String,
        /// What they are made from.
        from: String,
    },
    /// Nothing would be left.
    #[error(
        "{bad} is the only usable version of `{pool}`: without it no node can be made; \
         use `--to original`, or make a new version first"
    )]
    NothingLeft { pool: String, bad: String },
    /// There is no such version.
    #[error("there is no version {asked}; there are {existing}")]
    NoSuchVersion {
        asked: VersionNumber,
        /// Those that exist.
        existing: String,
    },
    /// The version cannot be used.
    #[error("version {asked} cannot be used in {region}: {why}; choose another")]
    Unusable {
        asked: VersionNumber,
        region: String,
        /// What it lacks.
        why: String,
    },
    /// It is so already.
    #[error("new nodes get {0} already; nothing was changed")]
    AlreadyThere(String),
    /// A roll back is in force.
    #[error("already rolled back ({hold}); to go further back say `--to VERSION`, to go on say `--lift-hold`")]
    AlreadyBack { hold: String },
    /// Somebody still uses what should be deleted.
    #[error(
        "version {version} is in use by {nodes}; leave `--delete` out, replace them with `kiln prototype refresh`, then delete"
    )]
    InUse {
        version: VersionNumber,
        /// Who uses it.
        nodes: String,
    },
    /// The original recipe is not there.
    #[error(
        "the original recipe of `{pool}` was not saved; use `--to VERSION`, or set the recipe by the tool that made the pool"
    )]
    NoOriginal { pool: String },
}
