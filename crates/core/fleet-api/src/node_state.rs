//! The state of one node.

use kiln_node_config::node_state::{Desired, NodeStateStatus};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The derive needs the struct that it is applied to. The fields are those of `kiln_node_config::node_state::NodeStateSpec`; a test compares them.
/// The state of one node. It has the name of its Node. The operator writes the spec; only the node's kilnd writes the status.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "NodeState",
    plural = "nodestates",
    shortname = "kns",
    status = "NodeStateStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Digest", "type": "string", "jsonPath": ".status.current.digest"}"#,
    printcolumn = r#"{"name": "Effect", "type": "string", "jsonPath": ".status.effect"}"#,
    printcolumn = r#"{"name": "Rollout", "type": "string", "jsonPath": ".spec.desired.rollout"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStateSpec {
    /// The document that the node has to apply. While it is set, the node ignores documents in user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Desired>,
    /// Digest of the document for which the node is drained. The node then applies it even if its effect is `drain` or `reboot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<String>,
    /// The boot id that the node has to leave: if the node still has this boot id, it reboots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_is_the_one_that_kilnd_reads() {
        let value = json!({
            "desired": {"nodeConfig": "web", "digest": "ab", "rollout": "r", "wave": 2, "since": "2026-01-01T00:00:00Z"},
            "allow": "ab",
            "reboot": "boot",
        });
        let ours: NodeStateSpec = serde_json::from_value(value.clone()).expect("a spec");
        let theirs: kiln_node_config::node_state::NodeStateSpec =
            serde_json::from_value(value.clone()).expect("a spec");
        assert_eq!(serde_json::to_value(ours).expect("JSON"), value);
        assert_eq!(serde_json::to_value(theirs).expect("JSON"), value);
    }
}
