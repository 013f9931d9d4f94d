//! After a failure: each instance gets the user data that it had before, newest node first. The model was not changed.
//!
//! kilnd ignores a document with a lower generation than the one in force. A node on which the document of the push is in force therefore gets its
//! earlier document with a higher generation.

use std::time::Duration;

use kiln_fleet_api::NodeFailure;
use kiln_node_config::NodeConfig;
use kiln_types::{Factory, Node};
use tokio::time::Instant;

use super::observe::{in_force, is_committed};
use super::record::{PushRecord, Stored};
use super::{DECIDE_AGAIN, Pusher, Reading};
use crate::Error;

/// Longer than a trial of kilnd, whose time limit is 5 minutes if the document sets no other.
const WITHIN: Duration = Duration::from_mins(15);

/// The user data with which a node returns to its earlier document.
#[derive(Debug, PartialEq, Eq)]
enum Earlier {
    /// Unchanged.
    Same(String),
    /// With a higher generation; and its digest.
    Raised(String, String),
    /// Unchanged, which the node ignores, and why.
    Ignored(String, &'static str),
}

/// Decides what to write. `is_in_force`: the node has the document of the push, which has this generation.
fn earlier(text: &str, is_in_force: bool, generation: u64) -> Earlier {
    let same = text.to_owned();
    if !is_in_force {
        return Earlier::Same(same);
    }
    match NodeConfig::parse(text.as_bytes()) {
        Ok(config) if config.signature.is_some() => {
            Earlier::Ignored(same, "its earlier document is signed and cannot get a higher generation")
        }
        Ok(mut config) => {
            config.metadata.generation = generation.saturating_add(1);
            let digest = config.hash();
            Earlier::Raised(config.to_json(), digest)
        }
        Err(_) => Earlier::Ignored(same, "its earlier document is not known"),
    }
}

impl<F: Factory> Pusher<'_, F> {
    /// Restores all user data, and waits until no node has the document in force. Returns the nodes that still have it.
    pub(super) async fn restore(
        &self,
        record: &mut PushRecord,
        stored: &mut Stored,
        reading: &mut Reading,
    ) -> Result<Vec<NodeFailure>, Error> {
        self.note("the failure limit is reached: restoring the earlier user data, newest node first".to_owned()).await;
        for name in record.newest_first() {
            self.restore_one(&name, record, stored, reading).await?;
        }
        let deadline = Instant::now() + WITHIN;
        loop {
            self.refresh(reading).await?;
            let left: Vec<NodeFailure> =
                (reading.nodes.iter()).filter_map(|(node, _)| self.not_restored(node, record)).collect();
            let is_waiting = left.iter().any(|failure| failure.reason == RETURNING);
            if !is_waiting || Instant::now() >= deadline || self.context.stop.is_requested() {
                return Ok(left);
            }
            let within = DECIDE_AGAIN.min(deadline.saturating_duration_since(Instant::now()));
            self.context.cluster.wait_for_node_report(self.pool, &reading.seen, within).await?;
        }
    }

    /// Writes the earlier user data to the instance of a node, once.
    pub(super) async fn restore_one(
        &self,
        name: &str,
        record: &mut PushRecord,
        stored: &mut Stored,
        reading: &Reading,
    ) -> Result<(), Error> {
        let Some(pushed) = record.nodes.get(name).filter(|pushed| !pushed.restored).cloned() else { return Ok(()) };
        let node = reading.nodes.iter().map(|(node, _)| node).find(|node| node.name.as_str() == name);
        let text = record.earlier.get(&pushed.earlier).cloned().unwrap_or_default();
        let user_data = match earlier(&text, node.is_some_and(|node| self.has_document(node)), record.generation) {
            Earlier::Same(text) | Earlier::Raised(text, _) | Earlier::Ignored(text, _) => text,
        };
        self.deliver(name, &pushed, &user_data).await?;
        if let Some(pushed) = record.nodes.get_mut(name) {
            pushed.restored = true;
        }
        stored.save(record).await
    }

    fn has_document(&self, node: &Node) -> bool {
        in_force(node).is_some_and(|(_, hash)| hash == self.digest)
    }

    /// Why a node still has the document of the push, or has not committed its earlier one.
    fn not_restored(&self, node: &Node, record: &PushRecord) -> Option<NodeFailure> {
        let pushed = record.nodes.get(node.name.as_str())?;
        let text = record.earlier.get(&pushed.earlier)?;
        let failure = |reason: &str| NodeFailure { node: node.name.to_string(), reason: reason.to_owned() };
        match earlier(text, true, record.generation) {
            Earlier::Ignored(_, why) => self.has_document(node).then(|| failure(&format!("keeps the document: {why}"))),
            Earlier::Raised(_, digest) => {
                let (_, hash) = in_force(node)?;
                let is_back = hash != self.digest && (hash != digest || is_committed(node, &digest));
                (!is_back).then(|| failure(RETURNING))
            }
            Earlier::Same(_) => None,
        }
    }
}

/// Why a node is waited for.
const RETURNING: &str = "has not returned to its earlier document yet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_document_gets_a_higher_generation_only_where_the_new_one_is_in_force() {
        let authority = "-----BEGIN CERTIFICATE-----\\nMA==\\n-----END CERTIFICATE-----\\n";
        let document = format!(
            r#"{{"apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {{"generation": 3}}, "spec": {{
                "cluster": {{"endpoint": "https://api.example:443", "certificateAuthority": "{authority}"}},
                "kubelet": {{"version": "1.34.4"}}}}}}"#
        );
        let mut config = NodeConfig::parse(document.as_bytes()).unwrap();
        let text = config.to_json();
        assert_eq!(earlier(&text, false, 7), Earlier::Same(text.clone()));
        let Earlier::Raised(raised, digest) = earlier(&text, true, 7) else { panic!("not raised") };
        let raised = NodeConfig::parse(raised.as_bytes()).unwrap();
        assert_eq!((raised.metadata.generation, raised.hash()), (8, digest));
        assert_eq!(raised.spec_hash(), config.spec_hash());
        config.signature = Some(kiln_node_config::Signature::default());
        let signed = config.to_json();
        assert!(matches!(earlier(&signed, true, 7), Earlier::Ignored(text, _) if text == signed));
        assert!(matches!(earlier("", true, 7), Earlier::Ignored(text, _) if text.is_empty()));
    }
}
