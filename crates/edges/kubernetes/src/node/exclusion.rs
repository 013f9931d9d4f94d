//! Keeps a node out of cloud load balancers.

use kiln_types::Node;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// The service controller removes a node with this label from the load balancers of all services. A cordon alone does not: since
/// Kubernetes 1.19 cordoned nodes keep receiving traffic.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

impl Cluster {
    /// Excludes a node from load balancers for the rest of its life. The label is not part of the node's hold and is not restored, so
    /// this is only for nodes that are deleted afterwards.
    pub async fn exclude_from_load_balancers(&self, node: &Node) -> Result<(), Error> {
        if node.labels.contains_key(EXCLUDE_FROM_LOAD_BALANCERS) {
            return Ok(());
        }
        let action = format!("exclude node `{}` from load balancers", node.name);
        let (api, params) = (self.nodes(), PatchParams::default());
        let patch = Patch::Merge(json!({"metadata": {"labels": {EXCLUDE_FROM_LOAD_BALANCERS: "true"}}}));
        let deadline = Instant::now() + RETRY_FOR;
        self.retry(&action, deadline, || api.patch(node.name.as_str(), &params, &patch)).await.map(drop)
    }
}
