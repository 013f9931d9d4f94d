//! How an operation itself fails, as opposed to what it is about.

use kiln_kubernetes::NodeName;
use kiln_prototype::journal::{Error, StepFailure};
use kiln_prototype::node_name::BadNodeName;
use kiln_prototype::provenance::Error;
use kiln_types::{BadCanary, BadName, ErrorClass, FactoryError, PoolName};

/// How an operation itself fails. What a run makes of the failures of its steps is in its [`Report`](crate::Report).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cloud did not do what it was asked before a run began.
    #[error("{what}: {source}")]
    Cloud {
        /// What was asked.
        what: String,
        /// What that means.
        class: ErrorClass,
        /// What the edge says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The cluster did not.
    #[error(transparent)]
    Cluster(#[from] kiln_kubernetes::Error),
    /// Another process works on the pool.
    #[error(
        "pool {pool} is being worked on by `{by}`: wait for it; if it is dead, its lease ends by itself within a minute"
    )]
    Busy { pool: PoolName, by: String },
    /// The run cannot be gone on with here.
    #[error("the run of pool {pool} stopped: {source}; `kiln prototype resume` goes on with it")]
    Interrupted { pool: PoolName, source: kiln_kubernetes::Error },
    /// No run is open.
    #[error("pool {0} has no open run to resume; `kiln prototype history` shows its runs")]
    NothingOpen(PoolName),
    /// The node is none of a pool.
    #[error("node `{node}` is no instance of a scale set")]
    NotOfAPool {
        node: NodeName,
        /// Why its name tells nothing either.
        source: BadNodeName,
    },
    /// The donor's machine, disk or inside could not be read.
    #[error("not enough of node `{node}` could be read to begin a run on it")]
    Unread { node: NodeName },
    /// The journal names a donor that is no node.
    #[error("the journal names a donor that is no node: {0}")]
    BadNode(#[source] BadName),
    /// The journal makes no sense.
    #[error(transparent)]
    Journal(#[from] Error),
    /// What the operation would make cannot be named.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The run has no name for a canary.
    #[error(transparent)]
    Canary(#[from] BadCanary),
    /// Azure would refuse a tag.
    #[error(transparent)]
    Tag(#[from] Error),
}

impl Error {
    /// Says what a failed request was for.
    pub fn cloud<E: FactoryError>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Cloud { what, class: source.class(), source: Box::new(source) }
    }

    /// Whether another process works on the pool.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

/// What a failure of the cloud means for a step.
pub(crate) fn of_cloud<E: FactoryError>(error: &E) -> StepFailure {
    StepFailure { class: error.class(), message: with_causes(error) }
}

/// What a failure of the cluster means for a step.
pub(crate) fn of_cluster(error: &kiln_kubernetes::Error) -> StepFailure {
    let class = if error.not_found() {
        ErrorClass::NotFound
    } else if error.permission() {
        ErrorClass::Permission
    } else if error.conflict() {
        ErrorClass::Precondition
    } else if error.retryable() {
        ErrorClass::Transient
    } else {
        match error {
            kiln_kubernetes::Error::HeldByAnother { .. } => ErrorClass::Refused,
            kiln_kubernetes::Error::Contended { .. } => ErrorClass::Busy,
            _ => ErrorClass::Unexpected,
        }
    };
    StepFailure { class, message: with_causes(error) }
}

/// The sentence with what is below it, each once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        below = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn a_failure_is_told_with_what_is_below_it() {
        let error = Outer(std::io::Error::other("the disk is full"));
        assert_eq!(with_causes(&error), "outer: the disk is full");
    }
}
