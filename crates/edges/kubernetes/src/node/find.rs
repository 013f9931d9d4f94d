//! Finding nodes.

use k8s_openapi::api::core::v1;
use kiln_types::{Node, PoolName, ProviderId};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use super::convert::node_from;
use crate::name::NodeName;
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

impl Cluster {
    pub(crate) fn nodes(&self) -> Api<v1::Node> {
        Api::all(self.client.clone())
    }

    /// The node with this name.
    pub async fn node(&self, name: &NodeName) -> Result<Node, Error> {
        let api = self.nodes();
        let action = format!("get node `{name}`");
        let node = self.retry(&action, Instant::now() + RETRY_FOR, || api.get(name.as_str())).await?;
        node_from(node)
    }

    /// The node with this provider ID, if it has joined the cluster.
    pub async fn find_node(&self, id: &ProviderId) -> Result<Option<Node>, Error> {
        let mut matches = self.nodes_that(|other| other.is_some_and(|other| other == id)).await?;
        if matches.len() > 1 {
            let nodes = matches.into_iter().map(|node| node.name).collect();
            return Err(Error::DuplicateProviderId { id: id.to_string(), nodes });
        }
        Ok(matches.pop())
    }

    /// The nodes of a pool, sorted by name.
    pub async fn nodes_of(&self, pool: &PoolName) -> Result<Vec<Node>, Error> {
        self.nodes_that(|id| id.is_some_and(|id| id.is_of(pool))).await
    }

    /// All nodes, sorted by name, including those that are not scale set instances.
    pub async fn all_nodes(&self) -> Result<Vec<Node>, Error> {
        self.nodes_that(|_| true).await
    }

    /// The nodes of a pool, with the revision of the list.
    pub(super) async fn nodes_of_at(&self, pool: &PoolName) -> Result<(Vec<Node>, String), Error> {
        self.nodes_that_at(|id| id.is_some_and(|id| id.is_of(pool))).await
    }

    async fn nodes_that(&self, wanted: impl Fn(Option<&ProviderId>) -> bool) -> Result<Vec<Node>, Error> {
        self.nodes_that_at(wanted).await.map(|(nodes, _)| nodes)
    }

    async fn nodes_that_at(&self, wanted: impl Fn(Option<&ProviderId>) -> bool) -> Result<(Vec<Node>, String), Error> {
        let keep = |node: v1::Node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            let id = id.and_then(|id| id.parse().ok());
            if wanted(id.as_ref()) { node_from(node).map(Some) } else { Ok(None) }
        };
        let (mut nodes, at) = self.list_at("list nodes", &self.nodes(), &ListParams::default(), keep).await?;
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((nodes, at))
    }
}
