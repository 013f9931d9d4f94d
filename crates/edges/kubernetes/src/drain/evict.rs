//! The eviction or deletion of one pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::Status;

use super::outcome::{EvictionOutcome, classify};
use super::pod::PodId;
use crate::request::once;
use crate::{Cluster, Error};

/// How a pod is removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemovalMode {
    /// Delete, bypassing all budgets, instead of evicting.
    pub(crate) delete: bool,
    /// Grace period in seconds that replaces the pod's own.
    pub(crate) grace: Option<u32>,
}

impl Cluster {
    /// Evicts or deletes one pod, identified by uid: another pod that has taken its name is not affected.
    pub(crate) async fn remove_pod(&self, pod: &PodId, mode: RemovalMode) -> Result<EvictionOutcome, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let response = if mode.delete { delete(&api, pod, mode).await } else { evict(&api, pod, mode).await };
        match response {
            Ok(()) => Ok(EvictionOutcome::Accepted),
            Err(Error::Api { action, status }) => match classify(&status) {
                EvictionOutcome::Refused { .. } if matches!(status.code, 401 | 403) => {
                    Err(Error::Api { action, status })
                }
                outcome => Ok(outcome),
            },
            Err(error) => Err(error),
        }
    }
}

/// kube's own `evict` sends the options under a name that the server does not know, so grace period and uid would be ignored silently.
async fn evict(api: &Api<Pod>, pod: &PodId, mode: RemovalMode) -> Result<(), Error> {
    let action = format!("evict pod `{pod}`");
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let options = DeleteOptions {
        grace_period_seconds: mode.grace.map(i64::from),
        preconditions: Some(preconditions),
        ..DeleteOptions::default()
    };
    let metadata =
        ObjectMeta { name: Some(pod.name.clone()), namespace: Some(pod.namespace.clone()), ..ObjectMeta::default() };
    let eviction = Eviction { delete_options: Some(options), metadata };
    let params = PostParams::default();
    let _: Status = once(&action, api.create_subresource("eviction", &pod.name, &params, &eviction)).await?;
    Ok(())
}

async fn delete(api: &Api<Pod>, pod: &PodId, mode: RemovalMode) -> Result<(), Error> {
    let preconditions = kube::api::Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let mut params = DeleteParams::default().preconditions(preconditions);
    params.grace_period_seconds = mode.grace;
    once(&format!("delete pod `{pod}`"), api.delete(&pod.name, &params)).await.map(|_| ())
}
