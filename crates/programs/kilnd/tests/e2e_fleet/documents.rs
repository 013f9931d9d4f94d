//! The documents that the rollouts bring to the nodes. One document serves all nodes, so it has no host name.

use control_plane::ControlPlane;
use kiln_node_config::NodeConfig;
use serde_json::{Value, json};

use super::booted::cluster::node_document;
use super::booted::document::Document;

/// Policy and scope of the kubelet's topology manager. A change of them drains the node. There are more pairs than rollouts that use them,
/// so each one differs from what any node has in force.
const TOPOLOGY: [(&str, &str); 8] = [
    ("none", "container"),
    ("none", "pod"),
    ("best-effort", "container"),
    ("best-effort", "pod"),
    ("restricted", "container"),
    ("restricted", "pod"),
    ("single-numa-node", "container"),
    ("single-numa-node", "pod"),
];

/// A document with its name and digest.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) document: String,
    pub(crate) generation: u64,
    /// `maxPods`, in which all documents differ.
    pub(crate) pods: u64,
}

/// The series of documents. Each differs from the one before it.
pub(crate) struct Documents {
    base: Document,
    generation: u64,
    topology: usize,
    kernel_arguments: u32,
}

impl Documents {
    pub(crate) fn new(plane: &ControlPlane) -> Self {
        let base = node_document(plane, "", 1)
            .without("/spec/platform")
            .with("/spec/runtime/sandboxImage", json!("docker.io/library/pause:test"));
        let base = with_topology(base, 0);
        Self { base, generation: 1, topology: 0, kernel_arguments: 0 }
    }

    /// The document of the provisioning media.
    pub(crate) fn first(&self) -> Document {
        self.base.clone()
    }

    /// A document that restarts the kubelet.
    pub(crate) fn restarting(&mut self) -> Target {
        self.next(|document| document)
    }

    /// A document that restarts the kubelet, with a time limit for its trial.
    pub(crate) fn restarting_within(&mut self, seconds: u32) -> Target {
        self.next(|document| document.with("/spec/health", json!({"withinSeconds": seconds})))
    }

    /// A document for which nodes are drained.
    pub(crate) fn draining(&mut self) -> Target {
        self.topology += 1;
        self.next(|document| document)
    }

    /// A document for which nodes are drained and rebooted.
    pub(crate) fn rebooting(&mut self) -> Target {
        self.kernel_arguments += 1;
        self.next(|document| document)
    }

    /// A document with which the kubelet does not start.
    pub(crate) fn broken(&mut self) -> Target {
        self.next(|document| {
            document
                .with("/spec/kubelet/configuration/featureGates", json!({"NoSuchFeature": true}))
                .with("/spec/health", json!({"withinSeconds": 100}))
        })
    }

    fn next(&mut self, change: impl FnOnce(Document) -> Document) -> Target {
        self.generation += 1;
        let pods = 40 + self.generation;
        let mut document = with_topology(self.base.clone(), self.topology)
            .with("/metadata/generation", json!(self.generation))
            .with("/spec/kubelet/configuration/maxPods", json!(pods));
        if self.kernel_arguments > 0 {
            let argument: Value = json!([format!("kiln.test={}", self.kernel_arguments)]);
            document = document.with("/spec/os/kernelArguments", argument);
        }
        let document = String::from_utf8(change(document).bytes()).expect("text");
        let digest = NodeConfig::parse(document.as_bytes()).expect("a document").hash();
        Target { name: format!("config-{}", self.generation), digest, document, generation: self.generation, pods }
    }
}

fn with_topology(document: Document, number: usize) -> Document {
    let (policy, scope) = TOPOLOGY[number];
    document
        .with("/spec/kubelet/configuration/topologyManagerPolicy", json!(policy))
        .with("/spec/kubelet/configuration/topologyManagerScope", json!(scope))
}
