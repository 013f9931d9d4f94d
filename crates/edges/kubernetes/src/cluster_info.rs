//! Read-only queries about the cluster and its node objects. Each result carries the request that it came from.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kiln_types::Sourced;
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;
use tokio::time::Instant;

use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// Karpenter's objects that configure nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KarpenterKind {
    NodePool,
    NodeClaim,
    AksNodeClass,
}

impl KarpenterKind {
    /// The Kubernetes kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodePool => "NodePool",
            Self::NodeClaim => "NodeClaim",
            Self::AksNodeClass => "AKSNodeClass",
        }
    }

    fn resource(self) -> ApiResource {
        let (group, version, plural) = match self {
            Self::NodePool => ("karpenter.sh", "v1", "nodepools"),
            Self::NodeClaim => ("karpenter.sh", "v1", "nodeclaims"),
            Self::AksNodeClass => ("karpenter.azure.com", "v1beta1", "aksnodeclasses"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.as_str()), plural)
    }
}

impl fmt::Display for KarpenterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Cluster {
    /// The version of the API server, without its `v`.
    pub async fn server_version(&self) -> Result<Sourced<String>, Error> {
        let call = "GET /version".to_owned();
        let deadline = Instant::now() + RETRY_FOR;
        let info = self.retry(&call, deadline, || self.client.apiserver_version()).await?;
        Ok(Sourced { value: info.git_version.trim_start_matches('v').to_owned(), call })
    }

    /// The cluster IPs of a service; empty if the service does not exist.
    pub async fn service_addresses(&self, namespace: &str, name: &str) -> Result<Sourced<Vec<String>>, Error> {
        let call = format!("GET /api/v1/namespaces/{namespace}/services/{name}");
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let deadline = Instant::now() + RETRY_FOR;
        let service = self.retry(&call, deadline, || api.get_opt(name)).await?;
        let spec = service.and_then(|service| service.spec).unwrap_or_default();
        let mut addresses = spec.cluster_ips.unwrap_or_default();
        if addresses.is_empty() {
            addresses.extend(spec.cluster_ip);
        }
        // A headless service has the address `None`.
        addresses.retain(|address| !address.is_empty() && address != "None");
        Ok(Sourced { value: addresses, call })
    }

    /// The names of a namespace's `DaemonSets`.
    pub async fn daemon_sets(&self, namespace: &str) -> Result<Sourced<Vec<String>>, Error> {
        let call = format!("GET /apis/apps/v1/namespaces/{namespace}/daemonsets");
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let value = self.list_all(&call, &api, &ListParams::default(), |set| Ok(set.metadata.name)).await?;
        Ok(Sourced { value, call })
    }

    /// The data of a `ConfigMap`; `None` if it does not exist.
    pub async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Sourced<Option<BTreeMap<String, String>>>, Error> {
        let call = format!("GET /api/v1/namespaces/{namespace}/configmaps/{name}");
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let deadline = Instant::now() + RETRY_FOR;
        let map = self.retry(&call, deadline, || api.get_opt(name)).await?;
        Ok(Sourced { value: map.map(|map| map.data.unwrap_or_default()), call })
    }

    /// Whether any node has this label.
    pub async fn has_node_labelled(&self, label: &str, value: &str) -> Result<Sourced<bool>, Error> {
        let selector = format!("{label}={value}");
        let call = format!("GET /api/v1/nodes?labelSelector={selector}&limit=1");
        let api: Api<Node> = Api::all(self.client.clone());
        let params = ListParams::default().labels(&selector).limit(1);
        let deadline = Instant::now() + RETRY_FOR;
        let nodes = self.retry(&call, deadline, || api.list_metadata(&params)).await?;
        Ok(Sourced { value: !nodes.items.is_empty(), call })
    }

    /// A Karpenter object with its defaults as the server stores it; `None` if it does not exist.
    pub async fn karpenter(&self, kind: KarpenterKind, name: &str) -> Result<Sourced<Option<Value>>, Error> {
        let resource = kind.resource();
        let call = format!("GET /apis/{}/{}/{name}", resource.api_version, resource.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let deadline = Instant::now() + RETRY_FOR;
        let object = self.retry(&call, deadline, || api.get_opt(name)).await?;
        let value = object
            .map(serde_json::to_value)
            .transpose()
            .map_err(|source| Error::BadContent { action: call.clone(), source })?;
        Ok(Sourced { value, call })
    }
}
