//! The last resort: pods that a drain could not move are deleted without grace.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::answer::EvictAnswer;
use super::ask::How;
use super::decide::{Flags, Verdict, decide};
use super::driver::{Drain, DrainOptions, POLL};
use super::failure::{DrainError, Left, LeftBecause};
use super::pod::{PodFacts, PodId};
use super::progress::Progress;
use crate::Cluster;
use crate::name::NodeName;

/// With all allowed, what still stays is what may never go: pods of `DaemonSets`, and mirrors.
const ALL: Flags = Flags { force: true, delete_emptydir_data: true, ignore_daemonsets: true, disable_eviction: true };

impl Cluster {
    /// Deletes the pods that a failed drain left, past budgets and without grace, and waits until they are gone. Only these, by uid: a pod
    /// that came since is not touched. Pods of `DaemonSets` and mirrors are not either, whoever names them. A pod whose finalizer holds it
    /// stays, and is named.
    pub async fn force_out(
        &self,
        node: &NodeName,
        left: &[Left],
        within: Duration,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Vec<PodId>, DrainError> {
        let options = DrainOptions { grace: Some(0), ..DrainOptions::new(ALL, within) };
        let mut drain = Drain::new(self, node, &options);
        let deadline = Instant::now() + within;
        let wanted: BTreeSet<&str> = left.iter().map(|left| left.pod.uid.as_str()).collect();
        let (mut asked, mut gone) = (BTreeSet::new(), Vec::new());
        let mut here: Vec<PodId> = Vec::new();
        loop {
            let pods = match drain.pods().await {
                Ok(pods) => pods,
                Err(error) => {
                    drain.bear(error, deadline, progress).await?;
                    continue;
                }
            };
            let may_go = |pod: &PodFacts| wanted.contains(pod.id.uid.as_str()) && decide(pod, ALL) == Verdict::Evict;
            let still: Vec<PodFacts> = pods.into_iter().filter(may_go).collect();
            for pod in here.drain(..).filter(|pod| still.iter().all(|other| other.id != *pod)) {
                progress(Progress::Gone(pod.clone()));
                gone.push(pod);
            }
            if still.is_empty() {
                return Ok(gone);
            }
            let over = Instant::now() >= deadline;
            let mut because = Vec::new();
            for pod in &still {
                let held = LeftBecause::Terminating { finalizers: pod.finalizers.clone() };
                let because_of = if over || asked.contains(&pod.id) {
                    held
                } else {
                    let answer = match self.ask_to_leave(&pod.id, How { delete: true, grace: Some(0) }).await {
                        Err(error) if error.retryable() => EvictAnswer::Away { message: error.to_string() },
                        answer => answer?,
                    };
                    match answer {
                        EvictAnswer::Accepted | EvictAnswer::Gone => {
                            asked.insert(pod.id.clone());
                            progress(Progress::Forced(pod.id.clone()));
                            held
                        }
                        EvictAnswer::Throttled { .. } => LeftBecause::Throttled,
                        EvictAnswer::Away { message } => LeftBecause::Away(message),
                        EvictAnswer::Budget { message }
                        | EvictAnswer::TwoBudgets { message }
                        | EvictAnswer::Refused { message } => LeftBecause::Refused(message),
                        EvictAnswer::NamespaceEnds => held,
                    }
                };
                because.push(Left { pod: pod.id.clone(), because: because_of });
            }
            if over {
                return Err(DrainError::Left { node: node.clone(), after: within, pods: because });
            }
            here = still.into_iter().map(|pod| pod.id).collect();
            sleep(POLL).await;
        }
    }
}
