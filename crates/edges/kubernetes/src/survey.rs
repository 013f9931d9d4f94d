//! What a cluster says of itself and of how its nodes are to be: read only, each answer with its call.

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

use crate::call::PATIENCE;
use crate::{Cluster, Error};

/// Karpenter's objects that say how a node is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KarpenterKind {
    /// A pool of nodes.
    NodePool,
    /// A node that was asked for.
    NodeClaim,
    /// What Azure's nodes are made like.
    AksNodeClass,
}

impl KarpenterKind {
    /// The name of the kind.
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
        let deadline = Instant::now() + PATIENCE;
        let info = self.persist(&call, deadline, || self.client.apiserver_version()).await?;
        Ok(Sourced { value: info.git_version.trim_start_matches('v').to_owned(), call })
    }

    /// The addresses of a service; none where there is no such service.
    pub async fn service_addresses(&self, namespace: &str, name: &str) -> Result<Sourced<Vec<String>>, Error> {
        let call = format!("GET /api/v1/namespaces/{namespace}/services/{name}");
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let deadline = Instant::now() + PATIENCE;
        let service = self.persist(&call, deadline, || api.get_opt(name)).await?;
        let spec = service.and_then(|service| service.spec).unwrap_or_default();
        let mut addresses = spec.cluster_ips.unwrap_or_default();
        if addresses.is_empty() {
            addresses.extend(spec.cluster_ip);
        }
        // A service without an address of its own says so by this word.
        addresses.retain(|address| !address.is_empty() && address != "None");
        Ok(Sourced { value: addresses, call })
    }

    /// Names of the daemon sets of a namespace.
    pub async fn daemon_sets(&self, namespace: &str) -> Result<Sourced<Vec<String>>, Error> {
        let call = format!("GET /apis/apps/v1/namespaces/{namespace}/daemonsets");
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let value = self.list_all(&call, &api, &ListParams::default(), |set| Ok(set.metadata.name)).await?;
        Ok(Sourced { value, call })
    }

    /// What a `ConfigMap` holds; none where there is no such one.
    pub async fn config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Sourced<Option<BTreeMap<String, String>>>, Error> {
        let call = format!("GET /api/v1/namespaces/{namespace}/configmaps/{name}");
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let deadline = Instant::now() + PATIENCE;
        let map = self.persist(&call, deadline, || api.get_opt(name)).await?;
        Ok(Sourced { value: map.map(|map| map.data.unwrap_or_default()), call })
    }

    /// Whether a node has this label with this value.
    pub async fn has_node_labelled(&self, label: &str, value: &str) -> Result<Sourced<bool>, Error> {
        let selector = format!("{label}={value}");
        let call = format!("GET /api/v1/nodes?labelSelector={selector}&limit=1");
        let api: Api<Node> = Api::all(self.client.clone());
        let params = ListParams::default().labels(&selector).limit(1);
        let deadline = Instant::now() + PATIENCE;
        let nodes = self.persist(&call, deadline, || api.list_metadata(&params)).await?;
        Ok(Sourced { value: !nodes.items.is_empty(), call })
    }

    /// An object of Karpenter's as the server has it, with the defaults that its definition gives; none where there is no such one.
    pub async fn karpenter(&self, kind: KarpenterKind, name: &str) -> Result<Sourced<Option<Value>>, Error> {
        let resource = kind.resource();
        let call = format!("GET /apis/{}/{}/{name}", resource.api_version, resource.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let deadline = Instant::now() + PATIENCE;
        let object = self.persist(&call, deadline, || api.get_opt(name)).await?;
        let value = object
            .map(serde_json::to_value)
            .transpose()
            .map_err(|source| Error::BadContent { what: call.clone(), source })?;
        Ok(Sourced { value, call })
    }
}
