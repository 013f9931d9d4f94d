//! Waits until the volumes of a drained node are detached.
//!
//! A pod is gone before its volumes are: the kubelet unmounts them, then the attach-detach controller detaches them, and both need a node
//! that is still there. A volume of a machine that was stopped or deleted too early stays attached to it, and the pod's replacement on
//! another node waits with a Multi-Attach error, for six minutes or for good.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{ListParams, WatchEvent};
use tokio::time::Instant;

use super::error::DrainError;
use super::progress::Progress;
use crate::name::NodeName;
use crate::request::RETRY_FOR;
use crate::watch::Watched;
use crate::{Cluster, Error};

/// Interval of reads while the volumes cannot be watched. Detaching an Azure disk takes 10 to 60 seconds.
const POLL: Duration = Duration::from_secs(2);

impl Cluster {
    /// Waits until a node has no `VolumeAttachment` and reports no volume in use. At the deadline the error names the volumes.
    pub async fn wait_detached(
        &self,
        node: &NodeName,
        within: Duration,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), DrainError> {
        let (started, deadline) = (Instant::now(), Instant::now() + within);
        let mut known = BTreeSet::new();
        loop {
            let attached = self.volumes_of(node).await?;
            let volumes = attached.names();
            if volumes.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let after = started.elapsed();
                return Err(DrainError::Attached { node: node.clone(), after, volumes: volumes.into_iter().collect() });
            }
            if volumes != known {
                progress(Progress::Attached(volumes.iter().cloned().collect()));
                known = volumes;
            }
            self.until_detached(node, &attached, deadline).await?;
        }
    }

    /// Waits until an attachment of the node is deleted or its volumes in use change, at most until `deadline`.
    async fn until_detached(&self, node: &NodeName, attached: &Attached, deadline: Instant) -> Result<(), Error> {
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let (api, fields) = (self.nodes(), format!("metadata.name={node}"));
        let (by_attachment, by_node) = (&attached.attachments, &attached.in_use);
        let watched =
            Watched { action: "watch VolumeAttachments", api: &attachments, fields: "", revision: &by_attachment.1 };
        let is_deleted = |event: &WatchEvent<VolumeAttachment>| matches!(event, WatchEvent::Deleted(attachment) if attachment.spec.node_name == node.as_str());
        let detached = self.wait_for_change(watched, is_deleted, POLL, deadline);
        let action = format!("watch node `{node}`");
        let watched = Watched { action: &action, api: &api, fields: &fields, revision: &by_node.1 };
        let is_unmounted = |event: &WatchEvent<Node>| match event {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => in_use(node) != by_node.0,
            _ => true,
        };
        let unmounted = self.wait_for_change(watched, is_unmounted, POLL, deadline);
        tokio::select! {
            done = detached => done,
            done = unmounted => done,
        }
    }

    /// The volumes that are attached to a node or mounted on it.
    async fn volumes_of(&self, node: &NodeName) -> Result<Attached, Error> {
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        // The server has no field selector for the node.
        let of_node = |attachment: VolumeAttachment| {
            let name = attachment.metadata.name.unwrap_or_default();
            let is_ours = attachment.spec.node_name == node.as_str();
            Ok(is_ours.then(|| attachment.spec.source.persistent_volume_name.unwrap_or(name)))
        };
        let every = ListParams::default();
        let attachments = self.list_at("list VolumeAttachments", &attachments, &every, of_node).await?;
        let (api, action) = (self.nodes(), format!("get node `{node}`"));
        let read = self.retry(&action, Instant::now() + RETRY_FOR, || api.get_opt(node.as_str())).await?;
        let revision = read.as_ref().and_then(|node| node.metadata.resource_version.clone()).unwrap_or_default();
        Ok(Attached { attachments, in_use: (read.as_ref().map(in_use).unwrap_or_default(), revision) })
    }
}

/// The volumes of a node, with the revisions that they were read at.
struct Attached {
    attachments: (Vec<String>, String),
    in_use: (Vec<String>, String),
}

impl Attached {
    fn names(&self) -> BTreeSet<String> {
        self.attachments.0.iter().chain(&self.in_use.0).cloned().collect()
    }
}

/// The volumes that a node reports as mounted.
fn in_use(node: &Node) -> Vec<String> {
    let volumes = node.status.as_ref().and_then(|status| status.volumes_in_use.as_ref());
    volumes.into_iter().flatten().map(|volume| short_name(volume).to_owned()).collect()
}

/// The last part of a volume's unique name (`kubernetes.io/csi/DRIVER^/subscriptions/…/disks/pvc-1`), which is the disk's name.
fn short_name(volume: &str) -> &str {
    volume.rsplit(['/', '^']).find(|part| !part.is_empty()).unwrap_or(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_in_use_is_named_after_its_disk() {
        let disk = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/pvc-1";
        for driver in ["kubernetes.io/csi/disk.csi.azure.com^", "kubernetes.io/azure-disk/"] {
            assert_eq!(short_name(&format!("{driver}{disk}")), "pvc-1");
        }
        assert_eq!(short_name("kubernetes.io/csi/example^handle"), "handle");
    }
}
