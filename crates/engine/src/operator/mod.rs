//! The operator: brings Rollouts to nodes.
//!
//! Watches fill the [`stores`] of all kinds. One operator at a time has the Lease and acts ([`leader`]); the others keep their stores up to
//! date and stand by. The leader looks at everything after each change ([`session`]):
//!
//! - `observe`: objects to what [`kiln_rollout::next`] reads, without I/O
//! - `rollout`: one Rollout: decide, write its status, act; `act` carries out the acts, `drains` runs drains in the background
//! - `pools`: a NodeState for every node, the target of new nodes, the status of Pools
//! - `images`: prototype runs, records of image versions, and the machines of rollouts with an image version
//! - `objects`: the status of documents, policies and freezes; `statuses` writes them;
//!   `requests`: labels and taints that nodes ask for; `readers`: what each node may read; `kured`: its lock
//! - `metrics`, `gauges` and `http`: what the operator shows of itself
//!
//! Nothing is remembered between two decisions but what can be observed again. An operator that is killed at any write is continued by the
//! next one: every write has the revision of the object that was read as its precondition, and the order of writes leaves the hold of a
//! node until the end.

mod act;
mod documents;
mod drains;
mod event;
mod gauges;
mod http;
mod images;
mod index;
mod kured;
mod leader;
mod metrics;
mod objects;
mod observe;
mod options;
mod pods;
mod pools;
mod prometheus;
mod readers;
mod requests;
mod rollout;
mod session;
mod statuses;
mod store;
mod stores;
mod writes;

use std::sync::Arc;

use kiln_kubernetes::Cluster;
use tokio::net::TcpListener;

pub use event::OperatorEvent;
pub use images::{ImageOptions, ImageReading, ImageWork};
pub use metrics::{METRICS, MetricInfo, MetricKind, operator_reference_page};
pub use options::{OPERATOR_LEASE, OperatorOptions, Report};

use self::leader::lead;
use self::metrics::Metrics;
use self::stores::Stores;
use crate::error::Error;
use crate::stop::Stop;

/// Runs the operator until a stop is requested. The lease is then released; nodes in flight stay as they are for the next operator.
///
/// It fails only if its address cannot be used. Outages of the API server are waited out.
pub async fn run(cluster: Cluster, options: OperatorOptions, stop: Stop) -> Result<(), Error> {
    let (metrics, stores) = (Arc::new(Metrics::default()), Arc::new(Stores::new(options.per_node_read)));
    let listener = match options.listen {
        Some(address) => {
            let failed = |source| Error::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            (options.report)(&OperatorEvent::Listening(listener.local_addr().map_err(failed)?));
            Some(listener)
        }
        None => None,
    };
    let serve = async {
        match listener {
            Some(listener) => http::serve(listener, metrics.clone(), stores.clone()).await,
            None => std::future::pending().await,
        }
    };
    let mut watches = stores.follow(&cluster, &options, &metrics);
    tokio::select! {
        () = serve => {}
        _ = watches.join_next() => {}
        () = lead(cluster, options.clone(), stores.clone(), metrics.clone(), stop) => {}
    }
    (options.report)(&OperatorEvent::Stopped);
    Ok(())
}
