//! Detects other programs that manage a node.

use std::fmt;

use super::seen::NodeSeen;

/// A program that manages a node's machine, detected by labels and annotations. kiln does not change such pools unless forced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manager {
    Aks {
        /// The label it was detected by.
        mark: String,
    },
    ClusterApi {
        /// The annotation or label it was detected by.
        mark: String,
    },
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aks { mark } => write!(f, "AKS (label `{mark}`)"),
            Self::ClusterApi { mark } => write!(f, "Cluster API (`{mark}`)"),
        }
    }
}

/// Labels that only AKS sets.
const AKS_ALONE: [&str; 2] = ["kubernetes.azure.com/node-image-version", "kubernetes.azure.com/mode"];
/// Both AKS and AKS Engine write the resource group of the machines here, and kiln supports AKS Engine's pools. AKS creates that group
/// itself and prefixes its name with `MC_`, unless the user chose another name.
const AKS_CLUSTER: (&str, &str) = ("kubernetes.azure.com/cluster", "MC_");
const CLUSTER_API: &str = "cluster.x-k8s.io/";

impl NodeSeen {
    /// The program that manages the machine, if one is detected.
    pub fn managed_by(&self) -> Option<Manager> {
        let of_api = |key: &&String| key.starts_with(CLUSTER_API);
        if let Some(key) = self.annotations.keys().chain(self.labels.keys()).find(of_api) {
            return Some(Manager::ClusterApi { mark: key.clone() });
        }
        let alone = AKS_ALONE.iter().find(|key| self.labels.contains_key(**key)).map(|key| (*key).to_owned());
        let (key, start) = AKS_CLUSTER;
        let group = self.labels.get(key).filter(|group| group.starts_with(start)).map(|group| format!("{key}={group}"));
        alone.or(group).map(|mark| Manager::Aks { mark })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;

    fn node(labels: &Value, annotations: &Value) -> NodeSeen {
        let node = json!({"metadata": {"name": "n", "labels": labels, "annotations": annotations}});
        NodeSeen::of(serde_json::from_value::<Node>(node).unwrap()).unwrap()
    }

    #[test]
    fn aks_is_distinguished_from_aks_engine_which_writes_the_same_label() {
        let engine = json!({"kubernetes.azure.com/cluster": "kubernetes-westus2-17813", "kubernetes.azure.com/role": "agent", "agentpool": "p"});
        assert_eq!(node(&engine, &json!({})).managed_by(), None);
        for labels in [
            json!({"kubernetes.azure.com/cluster": "MC_group_cluster_westus2"}),
            json!({"kubernetes.azure.com/cluster": "my-own-name", "kubernetes.azure.com/mode": "system"}),
            json!({"kubernetes.azure.com/node-image-version": "AKSUbuntu-2204gen2containerd-202401.09.0"}),
        ] {
            assert!(matches!(node(&labels, &json!({})).managed_by(), Some(Manager::Aks { .. })), "{labels}");
        }
    }

    #[test]
    fn cluster_api_is_detected_by_its_annotations() {
        let annotations = json!({"cluster.x-k8s.io/machine": "m", "other": "x"});
        let found = node(&json!({}), &annotations).managed_by();
        assert_eq!(found, Some(Manager::ClusterApi { mark: "cluster.x-k8s.io/machine".to_owned() }));
        assert_eq!(node(&json!({}), &json!({"notcluster.x-k8s.io/machine": "m"})).managed_by(), None);
    }
}
