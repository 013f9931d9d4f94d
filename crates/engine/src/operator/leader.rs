//! Leader election: one operator at a time acts.

use std::sync::Arc;
use std::time::Duration;

use kiln_kubernetes::{Cluster, PoolLease};
use tokio::time::{sleep, timeout};

use super::event::OperatorEvent;
use super::metrics::Metrics;
use super::options::{OPERATOR_LEASE, OperatorOptions};
use super::session::Session;
use super::stores::Stores;
use crate::stop::Stop;

/// How long a leader that was requested to stop may take to end its current writes.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Leads whenever the lease is free, until a stop is requested.
///
/// The session is dropped at the moment when the lease is lost or could have expired, also in the middle of a request. That request may
/// still arrive; its precondition makes it fail if the next leader has changed the object.
pub(super) async fn lead(
    cluster: Cluster,
    options: OperatorOptions,
    stores: Arc<Stores>,
    metrics: Arc<Metrics>,
    stop: Stop,
) {
    let lease = PoolLease::named(&cluster, &options.namespace, OPERATOR_LEASE, options.identity.clone(), options.lease);
    let report = |event: OperatorEvent| (options.report)(&event);
    let mut standby = String::new();
    while !stop.is_requested() {
        let attempt = tokio::select! {
            biased;
            () = stop.requested() => return,
            attempt = lease.try_acquire() => attempt,
        };
        let term = match attempt {
            Ok(term) => term,
            Err(error) => {
                let holder = match error {
                    kiln_kubernetes::Error::LeaseHeld { by, .. } => by,
                    error => {
                        report(OperatorEvent::Failed {
                            what: "acquire the lease".to_owned(),
                            error: error.to_string(),
                        });
                        String::new()
                    }
                };
                if !holder.is_empty() && holder != standby {
                    report(OperatorEvent::Standby { holder: holder.clone() });
                    standby = holder;
                }
                tokio::select! {
                    () = stop.requested() => return,
                    () = sleep(options.lease / 5) => continue,
                }
            }
        };
        standby.clear();
        metrics.set("kiln_operator_leader", &[], 1.0);
        report(OperatorEvent::Leading { term: term.transitions });
        let mut session = Session::new(cluster.clone(), options.clone(), stores.clone(), metrics.clone());
        let lost = tokio::select! {
            biased;
            lost = lease.keep_renewing() => Some(lost.to_string()),
            () = lease.expired() => Some("it was not renewed in time".to_owned()),
            () = session.run(&stop) => None,
            () = async { stop.requested().await; sleep(END_WITHIN).await } => None,
        };
        drop(session);
        metrics.set("kiln_operator_leader", &[], 0.0);
        match lost {
            Some(reason) => report(OperatorEvent::LostLease { reason }),
            // Without an answer the lease expires by itself.
            None => drop(timeout(END_WITHIN, lease.release()).await),
        }
    }
}
