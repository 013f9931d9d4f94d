//! A real control plane in the network of a machine, and the machine of a real kubelet.

use std::sync::Arc;

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use test_deps::{Cache, KubePrograms};
use testkit::Network;
use testkit::nspawn::{Blueprint, Machine};

use super::document::{Document, medium_with};
use super::stage::Stage;

/// A bootstrap token.
const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

/// What a kubelet writes to the kernel's settings; the kernel is the host's.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// A configuration of a network plugin that is never called: no pod runs here.
const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;

/// The API server by a name that `/etc/hosts` has, so that a document can break it.
const HOSTS: &str = "127.0.0.1 localhost kubernetes\n";

const IMAGE: &str = r#"{"kubelets": {"1.34.4": "/usr/bin/kubelet"}, "runtimes": {"1.6.20": "/usr/bin/containerd"}}"#;

/// A control plane that a machine reaches and nobody else.
pub(crate) struct Cluster {
    plane: Arc<ControlPlane>,
    network: Network,
}

impl Cluster {
    /// Starts one in a machine's network; nodes join with a bootstrap token, and their requests are approved.
    #[track_caller]
    pub(crate) fn of(machine: &Machine) -> Self {
        let network = machine.network().clone();
        let plane = network.within(|| ControlPlane::start(&Options::default()).map_err(std::io::Error::other));
        let plane = plane.unwrap_or_else(|error| panic!("{error}"));
        let cluster = Self { plane: Arc::new(plane), network };
        let (id, secret) = TOKEN;
        cluster.apply(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
        }));
        for role in ["system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"] {
            let api = "rbac.authorization.k8s.io";
            cluster.apply(json!({
                "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("kiln-test-{}", role.rsplit(':').next().unwrap_or_default())},
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:bootstrappers"}],
            }));
        }
        cluster
    }

    /// A document for a real kubelet on this kernel: control groups by itself, and nothing that needs more than root in a container.
    pub(crate) fn document(&self, generation: u64) -> Document {
        let port = self.plane.address().port();
        Document::new(generation)
            .with("/spec/cluster/endpoint", json!(format!("https://kubernetes:{port}")))
            .with("/spec/cluster/certificateAuthority", json!(self.plane.authority()))
            .with("/spec/credentialFrom", json!({"kind": "customData"}))
            .with("/spec/platform/hostName", json!("node-1"))
            .with(
                "/spec/kubelet/configuration",
                json!({
                    "address": "127.0.0.1",
                    "failSwapOn": false,
                    "makeIPTablesUtilChains": false,
                    // It renews its lease every second.
                    "nodeLeaseDurationSeconds": 4,
                }),
            )
            .with(
                "/spec/runtime",
                json!({
                    "systemdCgroup": false,
                    "configuration": {
                        "oom_score": 0,
                        "plugins": {"io.containerd.grpc.v1.cri": {"restrict_oom_score_adj": true}},
                    },
                }),
            )
            // kubelet and the node itself, as without any word about it.
            .with("/spec/health", json!({"withinSeconds": 600}))
    }

    /// The provisioning medium of a node: the first document, and the token beside it.
    pub(crate) fn medium(&self) -> String {
        medium_with("node-1", &self.document(1), &format!("{}.{}", TOKEN.0, TOKEN.1))
    }

    /// Creates or changes an object.
    #[track_caller]
    pub(crate) fn apply(&self, object: Value) {
        let plane = Arc::clone(&self.plane);
        let applied = self.network.within(move || plane.apply(&object).map_err(std::io::Error::other));
        applied.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The node, once it is there.
    pub(crate) fn node(&self) -> Option<Value> {
        let plane = Arc::clone(&self.plane);
        self.network.within(move || plane.get(&["node", "node-1"]).map_err(std::io::Error::other)).ok()
    }

    /// Whether the node says that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        let node = self.node().unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Takes the API server away.
    #[track_caller]
    pub(crate) fn stop(&self) {
        let plane = Arc::clone(&self.plane);
        let stopped = self.network.within(move || plane.stop_api_server().map_err(std::io::Error::other));
        stopped.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// A machine with kilnd, a real containerd and a real kubelet.
pub(crate) fn real(name: &str) -> Blueprint {
    let cache = Cache::of_user().unwrap_or_else(|error| panic!("{error}"));
    let kubelet = KubePrograms::of_user(cache).find("kubelet").unwrap_or_else(|missing| panic!("{missing}"));
    // What is called kubelet there may be a link to one program for all names.
    let kubelet = kubelet.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", kubelet.display()));
    let service = "[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\n";
    Stage::kilnd(name)
        .shared(&kubelet, "/usr/bin/kubelet")
        .file("/usr/lib/systemd/system/kubelet.service", service)
        .link("/usr/lib/systemd/system/multi-user.target.wants/kubelet.service", "../kubelet.service")
        .file("/usr/lib/kiln/image.json", IMAGE)
        .file("/etc/cni/net.d/10-none.conflist", NETWORK)
        .file("/etc/hosts", HOSTS)
        // containerd makes overlays, which cannot lie on one; kubelet measures the file system below it.
        .scratch("/var/lib/containerd")
        .scratch("/var/lib/kubelet")
        .pretend(&SETTINGS)
        .cgroups()
        .argument("--capability=all")
        // It reads there whether the kernel killed something.
        .argument("--bind=/dev/kmsg")
}
