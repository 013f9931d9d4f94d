//! The properties of a pod that a drain depends on.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// Identifies a pod. A pod of the same name with another uid is another pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The controller that recreates a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    None,
    /// Recreates the pod on the same node.
    DaemonSet {
        name: String,
        exists: bool,
    },
    Other,
}

/// The properties of a pod that a drain depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent property")]
pub struct PodFacts {
    pub id: PodId,
    /// The API object of a static pod: deleting it does not stop the pod.
    pub mirror: bool,
    /// Whether its phase is `Succeeded` or `Failed`.
    pub finished: bool,
    pub controller: Controller,
    /// Whether it has an emptyDir, whose data is lost with it.
    pub empty_dir: bool,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
    pub finalizers: Vec<String>,
    /// Its own grace period.
    pub grace: Duration,
}

const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

impl PodFacts {
    /// Reads a pod. A `DaemonSet` is assumed to exist; the caller checks it.
    pub(crate) fn from_pod(pod: Pod) -> Self {
        let Pod { metadata, spec, status } = pod;
        let phase = status.and_then(|status| status.phase).unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        let controller = match owners.into_iter().find(|owner| owner.controller == Some(true)) {
            None => Controller::None,
            Some(owner) if owner.kind == "DaemonSet" && owner.api_version == "apps/v1" => {
                Controller::DaemonSet { name: owner.name, exists: true }
            }
            Some(_) => Controller::Other,
        };
        let grace = spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let volumes = spec.and_then(|spec| spec.volumes).unwrap_or_default();
        Self {
            id: PodId {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
                uid: metadata.uid.unwrap_or_default(),
            },
            mirror: metadata.annotations.is_some_and(|annotations| annotations.contains_key(MIRROR_ANNOTATION)),
            finished: phase == "Succeeded" || phase == "Failed",
            controller,
            empty_dir: volumes.iter().any(|volume| volume.empty_dir.is_some()),
            terminating: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            grace: Duration::from_secs(grace.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default()),
        }
    }
}
