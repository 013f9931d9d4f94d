//! Why an operation fails, as opposed to how a run ends.

use kiln_prototype::journal::StepFailure;
use kiln_types::{BadName, ErrorClass, FactoryError, NodeName, PoolName, VersionNumber};

/// Why an operation fails. A run whose steps fail is not an error: its [`RunReport`](crate::RunReport) has the outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the cloud failed outside of a run's steps.
    #[error("{what}: {source}")]
    Cloud { what: String, class: ErrorClass, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(transparent)]
    Cluster(#[from] kiln_kubernetes::Error),
    #[error(transparent)]
    Prototype(#[from] kiln_prototype::Error),
    /// A resource that the operation would create cannot be named.
    #[error(transparent)]
    Name(#[from] BadName),

    #[error("pool `{pool}` is in use by `{by}`; if that process is dead, its lease expires within a minute")]
    Busy { pool: PoolName, by: String },
    #[error("the run on pool `{pool}` was interrupted: {source}")]
    Interrupted { pool: PoolName, source: kiln_kubernetes::Error },
    #[error("journal `{journal}`, entry {entry}: not an entry of a journal of schema 1 or 2")]
    JournalEntry { journal: String, entry: usize },
    #[error("pool `{0}` has no open run")]
    NoOpenRun(PoolName),
    #[error("run {run} holds node `{node}` and is open")]
    HeldByOpenRun { node: NodeName, run: String },
    #[error("the open run on pool `{pool}` has its gallery in {}, not in {}", place(recorded.as_ref()), place(given.as_ref()))]
    OtherGallery { pool: PoolName, recorded: Option<String>, given: Option<String> },
    #[error("node `{node}` is not an instance of a scale set")]
    NotInPool { node: NodeName, source: BadName },
    #[error(
        "node `{node}` is not an instance of a Uniform scale set (provider ID `{provider_id}`); Flexible scale sets and \
         standalone machines are not supported"
    )]
    NotUniform { node: NodeName, provider_id: String },
    #[error("cannot start a run on node `{node}`: its instance, disk or inspection could not be read")]
    DonorUnreadable { node: NodeName },

    #[error("scale set `{name}` does not exist; existing scale sets: {existing}")]
    NoSuchPool { name: PoolName, existing: String },
    #[error("the resource group has {count} scale sets ({existing}): choose one with `--target-vmss`")]
    AmbiguousPool { count: usize, existing: String },
    #[error("pool `{pool}` has no versions: image definition `{definition}` does not exist")]
    NoDefinition { pool: PoolName, definition: String },
    /// Without a revision, a write could undo another program's change.
    #[error("cannot change the recipe of `{0}` safely: the cloud returned no revision")]
    NoRevision(PoolName),
    #[error("pool `{0}` is not paused; nothing was changed")]
    NotPaused(PoolName),
    #[error(
        "cannot restore extension `{extension}` of `{pool}`: its protected settings are not known; nothing was changed"
    )]
    NoProtectedSettings { pool: PoolName, extension: String },
    #[error("the contents of version {version} of pool `{pool}` are not known: {reason}")]
    UnknownContents { pool: PoolName, version: VersionNumber, reason: String },
    /// The operation was requested to stop.
    #[error("stopped: {0}")]
    Stopped(String),
    #[error(
        "cannot refresh: no Node has the provider ID of {instances}, which may be running pods and cannot be drained"
    )]
    Unmatched { instances: String },
    #[error("{0}")]
    Refresh(String),
    /// A push was refused before anything was written.
    #[error(transparent)]
    Push(#[from] crate::PushRefusal),
    /// The operator's address for metrics and health cannot be used.
    #[error("cannot listen on `{address}`: {source}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
}

fn place(scope: Option<&String>) -> String {
    scope.map_or_else(|| "the pool's resource group".to_owned(), |scope| format!("`{scope}`"))
}

impl Error {
    /// Describes what a failed request was for.
    pub fn cloud<E: FactoryError>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Cloud { what, class: source.class(), source: Box::new(source) }
    }

    /// Whether another process works on the pool.
    pub fn is_busy(&self) -> bool {
        use kiln_kubernetes::Error::{HeldByAnother, JournalConflict, LeaseHeld, LeaseLost};
        match self {
            Self::Busy { .. } | Self::Interrupted { .. } => true,
            Self::Cluster(error) => {
                matches!(error, LeaseHeld { .. } | LeaseLost { .. } | HeldByAnother { .. } | JournalConflict { .. })
            }
            _ => false,
        }
    }
}

/// A step's failure because of the cloud.
pub(crate) fn cloud_failure<E: FactoryError>(error: &E) -> StepFailure {
    StepFailure { class: error.class(), message: kiln_types::error_chain::to_line(error) }
}

/// A step's failure because of the cluster.
pub(crate) fn cluster_failure(error: &kiln_kubernetes::Error) -> StepFailure {
    let class = if error.is_not_found() {
        ErrorClass::NotFound
    } else if error.is_forbidden() {
        ErrorClass::Permission
    } else if error.is_conflict() {
        ErrorClass::Precondition
    } else if error.is_retryable() {
        ErrorClass::Transient
    } else {
        match error {
            kiln_kubernetes::Error::HeldByAnother { .. } => ErrorClass::Refused,
            kiln_kubernetes::Error::Contended { .. } => ErrorClass::Busy,
            _ => ErrorClass::Unexpected,
        }
    };
    StepFailure { class, message: kiln_types::error_chain::to_line(error) }
}
