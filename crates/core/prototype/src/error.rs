//! The errors of this crate.

use kiln_types::VersionNumber;

use crate::provenance::{MAX_NAME, MAX_TAGS, MAX_VALUE};
use crate::run::RunId;

/// Why an input cannot be parsed, a journal cannot be replayed, or a rollback is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the journal has an entry of run `{0}`, which was never opened")]
    RunNotOpened(RunId),

    #[error("invalid history `{0}`: expected a number of at least 2, so that there is a version to roll back to")]
    History(String),
    #[error("invalid time span `{0}`: expected a whole number and a unit, such as `90s`, `5m`, `2h` or `3d`")]
    SpanNumber(String),
    #[error("invalid time span `{input}`: unknown unit `{unit}`, expected `s`, `m`, `h` or `d`")]
    SpanUnit { input: String, unit: String },
    #[error("invalid time span `{0}`: at most {max}d", max = u64::MAX / 86_400)]
    SpanTooLong(String),
    #[error("`--surge 0` with `--max-unavailable 0` replaces no node: raise one of them, or use `--all-at-once`")]
    EmptyBudget,

    #[error("invalid tag `{0}`: expected `name=value`")]
    TagForm(String),
    #[error("invalid tag name `{0}`: expected 1 to {MAX_NAME} characters")]
    TagNameLength(String),
    #[error("invalid tag name `{name}`: `{character}` is not allowed")]
    TagCharacter { name: String, character: char },
    #[error("invalid tag name `{name}`: Azure reserves the prefix `{prefix}`")]
    TagReserved { name: String, prefix: &'static str },
    #[error("the value of tag `{name}` has {length} characters; at most {MAX_VALUE} are allowed")]
    TagValueLength { name: String, length: usize },
    #[error("{0} tags; a resource has at most {MAX_TAGS}: use fewer `--tags`")]
    TooManyTags(usize),

    #[error(
        "cannot roll back `{pool}`: its new nodes are created from {image}, not from a version of its image definition"
    )]
    OtherImage { pool: String, image: String },
    #[error(
        "cannot roll back `{pool}`: {rejected} is its only usable version, and without it no node can be created; \
         use `--to original`, or create a new version first"
    )]
    NothingLeft { pool: String, rejected: String },
    #[error("version {requested} does not exist; existing versions: {existing}")]
    NoSuchVersion { requested: VersionNumber, existing: String },
    #[error("version {requested} cannot be used in {region}: {reason}")]
    Unusable { requested: VersionNumber, region: String, reason: String },
    #[error("new nodes already get {0}; nothing was changed")]
    AlreadyThere(String),
    #[error("already rolled back ({pause}); use `--to VERSION` to go further back, or `--unpause` to continue")]
    AlreadyRolledBack { pause: String },
    #[error(
        "version {version} is in use by {nodes}; run without `--delete`, replace them with `kiln prototype refresh`, then \
         delete it"
    )]
    InUse { version: VersionNumber, nodes: String },
    #[error(
        "the original recipe of `{pool}` was not saved; use `--to VERSION`, or restore the recipe with the tool that created \
         the pool"
    )]
    NoOriginal { pool: String },
}
