//! What a drain needs to know of a pod.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// Which pod. A pod of the same name with another uid is another pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    pub namespace: String,
    pub name: String,
    /// Its id among all pods that ever were.
    pub uid: String,
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Who makes the pod anew when it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// Nobody.
    None,
    /// A `DaemonSet`, which makes it anew on the same node.
    DaemonSet {
        name: String,
        /// Whether it still exists.
        exists: bool,
    },
    /// Anything else.
    Other,
}

/// What a drain needs to know of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct PodFacts {
    /// Which pod.
    pub id: PodId,
    /// Whether kubelet made it from a file: the API server shows it and cannot remove it.
    pub mirror: bool,
    /// Whether it ended, well or badly.
    pub finished: bool,
    /// Who makes it anew.
    pub controller: Controller,
    /// Whether data in an emptyDir goes with it.
    pub empty_dir: bool,
    /// Whether its deletion was asked for already.
    pub terminating: bool,
    /// Who must agree before it is gone.
    pub finalizers: Vec<String>,
}

const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

impl PodFacts {
    /// Reads a pod. A `DaemonSet` is taken to exist; whoever knows better says so.
    pub(crate) fn of(pod: Pod) -> Self {
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
        }
    }
}
