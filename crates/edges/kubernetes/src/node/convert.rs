//! Converts Kubernetes' Node objects.

use k8s_openapi::api::core::v1::{self, NodeSystemInfo};
use kiln_types::{Node, NodeCondition, NodeName, NodeSystem, Readiness, Taint};

use super::hold::{HOLD_ANNOTATION, NodeHold};
use crate::Error;

/// Converts a Node object. A hold annotation that cannot be parsed counts as a hold, since somebody wrote it for a reason.
pub(crate) fn node_from(node: v1::Node) -> Result<Node, Error> {
    let v1::Node { metadata, spec, status } = node;
    let name = metadata.name.unwrap_or_default();
    let name = NodeName::try_from(name).map_err(|bad| Error::Client {
        action: "read a node".to_owned(),
        source: Box::new(kube::Error::Service(bad.into())),
    })?;
    let spec = spec.unwrap_or_default();
    let status = status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let named = conditions.iter().map(|condition| (condition.type_.clone(), condition_from(condition))).collect();
    let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
    let taint =
        |taint: v1::Taint| Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect };
    let mut node = Node {
        uid: metadata.uid.unwrap_or_default(),
        provider_id: spec.provider_id,
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        cordoned: spec.unschedulable.unwrap_or_default(),
        taints: spec.taints.unwrap_or_default().into_iter().map(taint).collect(),
        created: metadata.creation_timestamp.map(|time| time.0),
        ready_since: ready.as_ref().and_then(|c| c.last_transition_time.as_ref()).map(|time| time.0),
        heartbeat: ready.as_ref().and_then(|c| c.last_heartbeat_time.as_ref()).map(|time| time.0),
        readiness: ready.map_or(Readiness::Unreported, |condition| match condition.status.as_str() {
            "True" => Readiness::Ready,
            _ => Readiness::NotReady {
                status: condition.status,
                reason: condition.reason.unwrap_or_default(),
                message: condition.message.unwrap_or_default(),
            },
        }),
        boot_id: status.node_info.as_ref().map(|info| info.boot_id.clone()).filter(|id| !id.is_empty()),
        system: status.node_info.map(system_from).unwrap_or_default(),
        revision: metadata.resource_version.unwrap_or_default(),
        conditions: named,
        ..Node::new(name)
    };
    node.held_by = match NodeHold::read(&node) {
        Ok(hold) => hold.map(|hold| hold.owner.to_string()),
        Err(_) => Some(format!("unknown (the annotation `{HOLD_ANNOTATION}` cannot be parsed)")),
    };
    Ok(node)
}

fn condition_from(condition: &v1::NodeCondition) -> NodeCondition {
    NodeCondition {
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
    }
}

fn system_from(info: NodeSystemInfo) -> NodeSystem {
    NodeSystem {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use jiff::Timestamp;

    use kiln_types::ProviderId;

    use super::*;

    #[test]
    fn node_object_is_converted_completely() {
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
        let node = node_from(serde_json::from_value(node).unwrap()).unwrap();
        let time = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        assert_eq!(node.created, time("2026-11-01T00:00:00Z"));
        assert_eq!((node.ready_since, node.heartbeat), (time("2026-11-02T03:04:05Z"), time("2026-11-15T12:00:00Z")));
        let conditions: Vec<_> = node.conditions.iter().map(|(name, one)| format!("{name}={}", one.status)).collect();
        assert_eq!(conditions, ["DiskPressure=False", "Ready=True"]);
        let machine = ProviderId::from_node(&node).unwrap();
        assert_eq!((machine.pool.as_str(), machine.instance.as_str()), ("pool", "12"));
        let taints: Vec<_> = node.taints.iter().map(|t| format!("{}={}:{}", t.key, t.value, t.effect)).collect();
        assert_eq!(taints, ["k=:NoSchedule", "l=v:NoExecute"]);
        let NodeSystem { kernel, kubelet, os_image, runtime, system_uuid, .. } = &node.system;
        assert_eq!([kernel, kubelet, os_image], ["5.4.0-1036-azure", "v1.19.6", "Ubuntu 18.04.5 LTS"]);
        assert_eq!([runtime, system_uuid], ["containerd://1.4.3", "u"]);
        assert!(!node.is_windows());
    }
}
