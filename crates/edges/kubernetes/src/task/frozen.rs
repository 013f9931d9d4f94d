//! A node with frozen file systems: a pod freezes them, is Ready while they are frozen, and thaws them when it is deleted.
//!
//! Nothing is read from the node meanwhile: the log of a pod is on the frozen disk. kilnd leaves its report in memory, and the pod of
//! [`Task::Thaw`] reads it afterwards.

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kiln_types::FREEZE_WINDOW;
use tokio::time::{Instant, timeout};

use super::driver::{Guard, TaskObjects, TaskRun, explain};
use crate::Error;

impl TaskRun<'_> {
    /// Does `work` from when the pod is Ready until it is deleted. Returns whether the pod was Ready until then. The pod is removed in any
    /// case, also if this future is dropped.
    pub(super) async fn hold_frozen(&self, work: BoxFuture<'_, ()>) -> Result<bool, Error> {
        let objects = self.objects();
        let mut guard = Guard(Some(objects.clone()));
        objects.remove().await?;
        self.announce().await;
        let held = self.work_frozen(&objects, work).await;
        let removed = objects.remove().await;
        guard.0 = None;
        let held = held?;
        removed?;
        Ok(held)
    }

    async fn work_frozen(&self, objects: &TaskObjects, work: BoxFuture<'_, ()>) -> Result<bool, Error> {
        let deadline = Instant::now() + self.within;
        let created = self.create_pod(objects, "", deadline).await?;
        loop {
            let pod = self.read(objects, deadline).await?;
            let Some(pod) = pod else { return Err(self.failed("it was removed by another process".to_owned())) };
            if is_ready(&pod) {
                break;
            }
            let revision = pod.metadata.resource_version.unwrap_or_default();
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Failed") => return Err(self.failed(format!("it failed: {}", explain(&status)))),
                Some("Succeeded") => {
                    return Err(self.failed("it ended before the kubelet reported it Ready".to_owned()));
                }
                _ if Instant::now() >= deadline => {
                    let waited = self.within.as_secs();
                    return Err(self.failed(format!("it is not Ready after {waited} s: {}", explain(&status))));
                }
                _ => objects.wait_for_change(&objects.pods, &revision, deadline).await?,
            }
        }
        // What is left of the work then happens on a node that has thawed itself.
        let _ = timeout(FREEZE_WINDOW, work).await;
        // The kubelet or a person may have ended the pod meanwhile. Then its report does not tell whether the work was done by then.
        let now = self.read(objects, deadline).await?;
        Ok(now.is_some_and(|now| {
            now.metadata.uid == created.metadata.uid && now.metadata.deletion_timestamp.is_none() && is_ready(&now)
        }))
    }

    async fn read(&self, objects: &TaskObjects, deadline: Instant) -> Result<Option<Pod>, Error> {
        let action = format!("get pod `{}/{}`", self.namespace, objects.name);
        self.cluster.retry(&action, deadline, || objects.pods.get_opt(&objects.name)).await
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status: &PodStatus| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
