//! One pod told to end.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::Status;

use super::answer::{EvictAnswer, judge};
use super::pod::PodId;
use crate::call::once;
use crate::{Cluster, Error};

/// How pods are told to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Delete, past all budgets.
    pub(crate) delete: bool,
    /// Seconds that the pod gets, if not its own number.
    pub(crate) grace: Option<u32>,
}

impl Cluster {
    /// Tells one pod to end: this one, not another that has its name by now.
    pub(crate) async fn ask_to_leave(&self, pod: &PodId, how: How) -> Result<EvictAnswer, Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let answered = if how.delete { delete(&api, pod, how).await } else { evict(&api, pod, how).await };
        match answered {
            Ok(()) => Ok(EvictAnswer::Accepted),
            Err(Error::Answered { what, answer }) => match judge(&answer) {
                EvictAnswer::Refused { .. } if matches!(answer.code, 401 | 403) => {
                    Err(Error::Answered { what, answer })
                }
                meaning => Ok(meaning),
            },
            Err(error) => Err(error),
        }
    }
}

/// kube's own `evict` writes the options under a name that the server does not know: grace and uid would be ignored without a word.
async fn evict(api: &Api<Pod>, pod: &PodId, how: How) -> Result<(), Error> {
    let what = format!("evict pod `{pod}`");
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let options = DeleteOptions {
        grace_period_seconds: how.grace.map(i64::from),
        preconditions: Some(preconditions),
        ..DeleteOptions::default()
    };
    let metadata =
        ObjectMeta { name: Some(pod.name.clone()), namespace: Some(pod.namespace.clone()), ..ObjectMeta::default() };
    let eviction = Eviction { delete_options: Some(options), metadata };
    let params = PostParams::default();
    let _: Status = once(&what, api.create_subresource("eviction", &pod.name, &params, &eviction)).await?;
    Ok(())
}

async fn delete(api: &Api<Pod>, pod: &PodId, how: How) -> Result<(), Error> {
    let preconditions = kube::api::Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let mut params = DeleteParams::default().preconditions(preconditions);
    params.grace_period_seconds = how.grace;
    once(&format!("delete pod `{pod}`"), api.delete(&pod.name, &params)).await.map(|_| ())
}
