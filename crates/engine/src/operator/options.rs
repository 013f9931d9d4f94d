//! Options of the operator.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use kiln_kubernetes::drain::Flags;
use kiln_kubernetes::{Namespace, Owner};

use super::event::OperatorEvent;
use super::images::ImageOptions;
use crate::context::Clock;

/// Name of the Lease that the leading operator holds.
pub const OPERATOR_LEASE: &str = "kiln-operator";

/// Receives the events of the operator.
pub type Report = Arc<dyn Fn(&OperatorEvent) + Send + Sync>;

/// Options of the operator.
#[derive(Clone)]
pub struct OperatorOptions {
    /// The namespace of the Lease [`OPERATOR_LEASE`].
    pub namespace: Namespace,
    /// Identifies this process among the operators, such as the name of its pod with a random suffix.
    pub identity: Owner,
    /// The address of `/metrics`, `/healthz` and `/readyz`.
    pub listen: Option<SocketAddr>,
    /// After this time without a renewal another operator takes over.
    pub lease: Duration,
    /// Which pods a drain may evict. The time limit of a drain is in the policy of the rollout.
    pub drain: Flags,
    /// The number of nodes that are drained at the same time in all rollouts.
    pub parallel_drains: NonZeroUsize,
    /// Everything is looked at again after this time without a change.
    pub resync: Duration,
    /// Grant each node the right to read its own NodeState, where nodes may not read all of them.
    pub per_node_read: bool,
    /// How it works with images; without it, it needs no access to a cloud.
    pub images: Option<ImageOptions>,
    pub clock: Clock,
    /// Writes the log.
    pub report: Report,
}

impl OperatorOptions {
    /// kube-controller-manager's default.
    pub const LEASE: Duration = Duration::from_secs(15);
    /// A drain is mostly waiting, and a budget of the policy usually allows fewer nodes.
    pub const PARALLEL_DRAINS: NonZeroUsize = NonZeroUsize::new(20).unwrap();
    /// Only a safety net: every change is seen by a watch, and every deadline has its own timer.
    pub const RESYNC: Duration = Duration::from_mins(10);
    /// As in a prototype run without `--force`.
    pub const DRAIN: Flags =
        Flags { force: false, delete_emptydir_data: true, ignore_daemonsets: true, disable_eviction: false };

    /// Options with defaults, without an address and without a log.
    pub fn new(namespace: Namespace, identity: Owner, clock: Clock) -> Self {
        Self {
            namespace,
            identity,
            listen: None,
            lease: Self::LEASE,
            drain: Self::DRAIN,
            parallel_drains: Self::PARALLEL_DRAINS,
            resync: Self::RESYNC,
            per_node_read: false,
            images: None,
            clock,
            report: Arc::new(|_| ()),
        }
    }
}

impl fmt::Debug for OperatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, identity, listen, lease, resync, .. } = self;
        f.debug_struct("OperatorOptions")
            .field("namespace", namespace)
            .field("identity", identity)
            .field("listen", listen)
            .field("lease", lease)
            .field("resync", resync)
            .finish_non_exhaustive()
    }
}
