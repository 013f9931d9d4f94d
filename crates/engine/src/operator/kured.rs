//! Locks of kured that are not needed any more. A drain takes the lock, and the release of the node releases it.

use k8s_openapi::api::core::v1::Node;

use super::index::{hold, rollout_uid};
use super::session::Session;
use super::stores::Snapshots;

/// Whether a rollout holds a node.
fn is_held(node: &Node) -> bool {
    hold(node).is_some_and(|hold| rollout_uid(&hold.owner).is_some())
}

impl Session {
    /// Releases kured's lock for nodes that were deleted in their turn.
    pub(super) async fn unlock_gone(&mut self, view: &Snapshots) {
        let exists = |node: &str| view.nodes.contains_key(node);
        self.held.extend(self.drains.end_gone(exists));
        let gone: Vec<String> = self.held.iter().filter(|node| !exists(node)).cloned().collect();
        for node in gone {
            let Ok(name) = node.parse() else { continue };
            match self.shared.cluster.release_kured_lock(&name).await {
                Ok(()) => drop(self.held.remove(&node)),
                Err(error) => self.shared.failed("release kured's lock", &error),
            }
        }
        self.held.retain(|node| !exists(node));
        self.held.extend(view.nodes.iter().filter(|(_, node)| is_held(node)).map(|(name, _)| name.clone()));
    }

    /// Releases locks of kured that an operator left when it died between the lock and the hold.
    pub(super) async fn sweep_kured(&self) {
        let held = |node: &str| {
            let nodes = self.shared.stores.nodes.snapshot();
            nodes.get(node).is_some_and(|node| is_held(node))
        };
        let locks = match self.shared.cluster.kured_locks_of_kiln().await {
            Ok(locks) => locks,
            Err(error) => return self.shared.failed("read kured's lock", &error),
        };
        for node in locks.into_iter().filter(|node| !held(node.as_str())) {
            if let Err(error) = self.shared.cluster.release_kured_lock(&node).await {
                self.shared.failed("release kured's lock", &error);
            }
        }
    }
}
