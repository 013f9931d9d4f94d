//! Annotations of a node that are no hold.

use std::collections::BTreeMap;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::name::NodeName;
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

impl Cluster {
    /// Sets annotations of a node; `None` removes one. Others are kept.
    pub async fn annotate(&self, node: &NodeName, annotations: &BTreeMap<&str, Option<String>>) -> Result<(), Error> {
        let (api, action) = (self.nodes(), format!("annotate node `{node}`"));
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let params = PatchParams::default();
        self.retry(&action, Instant::now() + RETRY_FOR, || api.patch(node.as_str(), &params, &patch)).await?;
        Ok(())
    }
}
