//! A node as read from the API server.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};

use super::hold::{HOLD_ANNOTATION, Hold};
use super::provider_id::ProviderId;
use crate::Error;
use crate::name::NodeName;

/// A node as read from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    pub name: NodeName,
    pub uid: String,
    /// The cloud's ID of the machine.
    pub provider_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Whether it is unschedulable.
    pub cordoned: bool,
    pub taints: Vec<Taint>,
    /// When it joined the cluster.
    pub created: Option<Timestamp>,
    /// The condition `Ready`.
    pub readiness: Readiness,
    /// The last transition of the condition `Ready`.
    pub ready_since: Option<Timestamp>,
    /// The last heartbeat of the condition `Ready`. Recent kubelets renew a Lease instead and update this only every five minutes.
    pub heartbeat: Option<Timestamp>,
    pub system: System,
    /// Changes with each boot of the machine.
    pub boot_id: Option<String>,
    /// The resource version.
    pub revision: String,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    /// Empty if unset.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// The kubelet's report about the system; empty fields were not reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    pub kernel: String,
    pub kubelet: String,
    pub os_image: String,
    /// The container runtime and its version.
    pub runtime: String,
    /// `linux` or `windows`.
    pub operating_system: String,
    /// `amd64` or `arm64`.
    pub architecture: String,
    /// The firmware's UUID.
    pub system_uuid: String,
    /// The content of `/etc/machine-id`.
    pub machine_id: String,
}

impl From<NodeSystemInfo> for System {
    fn from(info: NodeSystemInfo) -> Self {
        Self {
            kernel: info.kernel_version,
            kubelet: info.kubelet_version,
            os_image: info.os_image,
            runtime: info.container_runtime_version,
            operating_system: info.operating_system,
            architecture: info.architecture,
            system_uuid: info.system_uuid,
            machine_id: info.machine_id,
        }
    }
}

/// Labels with the operating system: the current name and its predecessor.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];

/// The condition `Ready` of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady {
        /// `False` or `Unknown`.
        status: String,
        reason: String,
        message: String,
    },
    /// The kubelet has not reported the condition.
    Unsaid,
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("it is ready"),
            Self::NotReady { status, reason, message } => write!(f, "condition Ready is {status}: {reason}: {message}"),
            Self::Unsaid => f.write_str("the kubelet has not reported a condition Ready yet"),
        }
    }
}

impl NodeSeen {
    pub(crate) fn of(node: Node) -> Result<Self, Error> {
        let Node { metadata, spec, status } = node;
        let name = metadata.name.unwrap_or_default();
        let name = NodeName::try_from(name).map_err(|bad| Error::Client {
            action: "read a node".to_owned(),
            source: Box::new(kube::Error::Service(bad.into())),
        })?;
        let spec = spec.unwrap_or_default();
        let status = status.unwrap_or_default();
        let ready = status.conditions.unwrap_or_default().into_iter().find(|c| c.type_ == "Ready");
        let ready_since = ready.as_ref().and_then(|c| c.last_transition_time.as_ref()).map(|time| time.0);
        let heartbeat = ready.as_ref().and_then(|c| c.last_heartbeat_time.as_ref()).map(|time| time.0);
        let taint = |taint: k8s_openapi::api::core::v1::Taint| Taint {
            key: taint.key,
            value: taint.value.unwrap_or_default(),
            effect: taint.effect,
        };
        let boot_id = status.node_info.as_ref().map(|info| info.boot_id.clone()).filter(|id| !id.is_empty());
        let readiness = ready.map_or(Readiness::Unsaid, |condition| match condition.status.as_str() {
            "True" => Readiness::Ready,
            _ => Readiness::NotReady {
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
            },
        });
        Ok(Self {
            name,
            uid: metadata.uid.unwrap_or_default(),
            provider_id: spec.provider_id,
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            cordoned: spec.unschedulable.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default().into_iter().map(taint).collect(),
            created: metadata.creation_timestamp.map(|time| time.0),
            readiness,
            ready_since,
            heartbeat,
            system: status.node_info.map(System::from).unwrap_or_default(),
            boot_id,
            revision: metadata.resource_version.unwrap_or_default(),
        })
    }

    /// The scale set instance of the node, if it is one.
    pub fn machine(&self) -> Option<ProviderId> {
        self.provider_id.as_deref()?.parse().ok()
    }

    /// Whether it runs Windows, according to its label or the kubelet.
    pub fn is_windows(&self) -> bool {
        let labelled = OS_LABELS.iter().filter_map(|label| self.labels.get(*label)).any(|os| os == "windows");
        labelled || self.system.operating_system == "windows"
    }

    /// The hold on the node, if any.
    pub fn hold(&self) -> Result<Option<Hold>, Error> {
        let Some(text) = self.annotations.get(HOLD_ANNOTATION) else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|source| Error::BadAnnotation {
            node: self.name.clone(),
            annotation: HOLD_ANNOTATION,
            text: text.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_is_read_with_everything_that_donor_selection_needs() {
        let node = json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-11-01T00:00:00Z", "labels": {"a": "b"}},
            "spec": {
                "providerID": "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/12",
                "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "l", "value": "v", "effect": "NoExecute"}],
            },
            "status": {
                "conditions": [
                    {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2026-11-09T00:00:00Z"},
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-02T03:04:05Z", "lastHeartbeatTime": "2026-11-15T12:00:00Z"},
                ],
                "nodeInfo": {
                    "kernelVersion": "5.4.0-1036-azure", "kubeletVersion": "v1.19.6", "osImage": "Ubuntu 18.04.5 LTS",
                    "containerRuntimeVersion": "containerd://1.4.3", "operatingSystem": "linux", "architecture": "amd64",
                    "bootID": "b", "machineID": "m", "systemUUID": "u", "kubeProxyVersion": "",
                },
            },
        });
        let seen = NodeSeen::of(serde_json::from_value(node).unwrap()).unwrap();
        let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        assert_eq!(seen.created, time("2026-11-01T00:00:00Z"));
        assert_eq!((seen.ready_since, seen.heartbeat), (time("2026-11-02T03:04:05Z"), time("2026-11-15T12:00:00Z")));
        let machine = seen.machine().unwrap();
        assert_eq!((machine.pool.as_str(), machine.instance.as_str()), ("pool", "12"));
        let taints: Vec<_> = seen.taints.iter().map(|t| format!("{}={}:{}", t.key, t.value, t.effect)).collect();
        assert_eq!(taints, ["k=:NoSchedule", "l=v:NoExecute"]);
        let System { kernel, kubelet, os_image, runtime, system_uuid, .. } = &seen.system;
        assert_eq!([kernel, kubelet, os_image], ["5.4.0-1036-azure", "v1.19.6", "Ubuntu 18.04.5 LTS"]);
        assert_eq!([runtime, system_uuid], ["containerd://1.4.3", "u"]);
        assert!(!seen.is_windows());
    }

    #[test]
    fn windows_is_detected_by_either_label_or_by_the_kubelet() {
        let os = |labels: serde_json::Value, system: &str| {
            let info = json!({"operatingSystem": system, "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "osImage": "", "systemUUID": ""});
            let node = json!({"metadata": {"name": "n", "labels": labels}, "status": {"nodeInfo": info}});
            NodeSeen::of(serde_json::from_value(node).unwrap()).unwrap().is_windows()
        };
        assert!(os(json!({"kubernetes.io/os": "windows"}), ""));
        assert!(os(json!({"beta.kubernetes.io/os": "windows"}), ""));
        assert!(os(json!({}), "windows"));
        assert!(!os(json!({"kubernetes.io/os": "linux"}), "linux"));
    }
}
