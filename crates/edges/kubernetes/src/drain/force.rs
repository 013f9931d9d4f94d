//! Force: deletes the pods that a drain could not evict, without grace period.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::decide::{EvictionDecision, Flags, decide};
use super::driver::{Drain, DrainOptions, POLL};
use super::error::{DrainError, RemainReason, RemainingPod};
use super::evict::RemovalMode;
use super::outcome::EvictionOutcome;
use super::pod::{PodFacts, PodId};
use super::progress::Progress;
use crate::Cluster;
use crate::name::NodeName;

/// With everything allowed, the pods that still stay are those that must never be deleted: pods of `DaemonSets`, and mirror pods.
const ALL: Flags = Flags { force: true, delete_emptydir_data: true, ignore_daemonsets: true, disable_eviction: true };

impl Cluster {
    /// Deletes the pods that a failed drain left, bypassing budgets and without grace period, and waits until they are gone. Only these pods,
    /// by uid: a pod that appeared later is not touched, and pods of `DaemonSets` and mirror pods are skipped even if they are listed in
    /// `remaining`. A pod with a finalizer stays and is named in the error.
    pub async fn force_out(
        &self,
        node: &NodeName,
        remaining: &[RemainingPod],
        within: Duration,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Vec<PodId>, DrainError> {
        let options = DrainOptions { grace: Some(0), ..DrainOptions::new(ALL, within) };
        let mut drain = Drain::new(self, node, &options);
        let deadline = Instant::now() + within;
        let wanted: BTreeSet<&str> = remaining.iter().map(|remaining| remaining.pod.uid.as_str()).collect();
        let (mut deleted, mut gone) = (BTreeSet::new(), Vec::new());
        let mut present: Vec<PodId> = Vec::new();
        loop {
            let (pods, revision) = match drain.pods().await {
                Ok(pods) => pods,
                Err(error) => {
                    drain.wait_out(error, deadline, progress).await?;
                    continue;
                }
            };
            let may_go =
                |pod: &PodFacts| wanted.contains(pod.id.uid.as_str()) && decide(pod, ALL) == EvictionDecision::Evict;
            let still: Vec<PodFacts> = pods.into_iter().filter(may_go).collect();
            for pod in present.drain(..).filter(|pod| still.iter().all(|other| other.id != *pod)) {
                progress(Progress::Gone(pod.clone()));
                gone.push(pod);
            }
            if still.is_empty() {
                return Ok(gone);
            }
            let timed_out = Instant::now() >= deadline;
            let mut reasons = Vec::new();
            for pod in &still {
                let terminating = RemainReason::Terminating { finalizers: pod.finalizers.clone() };
                let reason = if timed_out || deleted.contains(&pod.id) {
                    terminating
                } else {
                    let outcome = match self.remove_pod(&pod.id, RemovalMode { delete: true, grace: Some(0) }).await {
                        Err(error) if error.is_retryable() => {
                            EvictionOutcome::Unavailable { message: error.to_string() }
                        }
                        outcome => outcome?,
                    };
                    match outcome {
                        EvictionOutcome::Accepted | EvictionOutcome::Gone => {
                            deleted.insert(pod.id.clone());
                            progress(Progress::Forced(pod.id.clone()));
                            terminating
                        }
                        EvictionOutcome::Throttled { .. } => RemainReason::Throttled,
                        EvictionOutcome::Unavailable { message } => RemainReason::Unavailable(message),
                        EvictionOutcome::Budget { message }
                        | EvictionOutcome::MultipleBudgets { message }
                        | EvictionOutcome::Refused { message } => RemainReason::Refused(message),
                        EvictionOutcome::NamespaceTerminating => terminating,
                    }
                };
                reasons.push(RemainingPod { pod: pod.id.clone(), reason });
            }
            if timed_out {
                return Err(DrainError::Remaining { node: node.clone(), after: within, pods: reasons });
            }
            present = still.into_iter().map(|pod| pod.id).collect();
            // A deletion that was not accepted is repeated.
            let wake = if present.iter().all(|pod| deleted.contains(pod)) { deadline } else { Instant::now() + POLL };
            if let Err(error) = drain.until_pods_change(&revision, wake.min(deadline)).await {
                drain.wait_out(error, deadline, progress).await?;
            }
        }
    }
}
