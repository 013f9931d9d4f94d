//! A real control plane in a machine's network namespace, and a machine with a real kubelet.

use std::sync::Arc;

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use test_deps::{Cache, KubePrograms};
use testkit::Network;
use testkit::nspawn::{Blueprint, Machine};

use super::document::{Document, ovf_env_with_credential};
use super::stage::Stage;

/// The bootstrap token: id and secret.
pub(crate) const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

/// Kernel settings that the kubelet writes. They are masked, because the kernel is the host's.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Copies the boot id. systemd-nspawn mounts a file over the host's and deletes it, so that it cannot be mounted again.
const COPY_BOOT_ID: &str = "[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cat /proc/sys/kernel/random/boot_id >/run/boot-id'
";

/// Shows `kilnd watch` the boot id of the machine. For `ProtectControlGroups=` systemd mounts a new `/proc` for the service, which has the host's
/// boot id. On a real machine every `/proc` has the same one.
const SHOW_BOOT_ID: &str = "[Service]\nBindReadOnlyPaths=/run/boot-id:/proc/sys/kernel/random/boot_id\n";

/// The file of [`NETWORK`].
pub(crate) const NETWORK_FILE: &str = "/etc/cni/net.d/10-none.conflist";

/// A CNI configuration that is never executed, because no pod runs here.
const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;

/// Resolves the API server's name, so that a NodeConfig can break it by replacing `/etc/hosts`.
const HOSTS: &str = "127.0.0.1 localhost kubernetes\n";

/// A control plane that only one machine can reach.
pub(crate) struct Cluster {
    plane: Arc<ControlPlane>,
    network: Network,
}

impl Cluster {
    /// Starts a control plane in a machine's network. Nodes join with a bootstrap token, and their CSRs are approved.
    #[track_caller]
    pub(crate) fn start(machine: &Machine) -> Self {
        Self::start_with(machine, &Options::default())
    }

    /// The same with other options.
    #[track_caller]
    pub(crate) fn start_with(machine: &Machine, options: &Options) -> Self {
        let network = machine.network().clone();
        let plane = network.within(|| ControlPlane::start(options).map_err(std::io::Error::other));
        let plane = plane.unwrap_or_else(|error| panic!("{error}"));
        let cluster = Self { plane: Arc::new(plane), network };
        for object in joining_objects() {
            cluster.apply(object);
        }
        cluster
    }

    /// A NodeConfig for a real kubelet in a container.
    pub(crate) fn document(&self, generation: u64) -> Document {
        node_document(&self.plane, "node-1", generation)
    }

    /// The `ovf-env.xml` of the first boot: generation 1, and the token as a separate part.
    pub(crate) fn ovf_env(&self) -> String {
        Self::ovf_env_for("node-1", &self.document(1))
    }

    /// The `ovf-env.xml` of another node's first boot.
    pub(crate) fn ovf_env_for(name: &str, document: &Document) -> String {
        ovf_env_with_credential(name, document, &format!("{}.{}", TOKEN.0, TOKEN.1))
    }

    /// The address of the API server, on the loopback device of the machine's network.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.plane.address()
    }

    /// An object, if it exists.
    pub(crate) fn get(&self, words: &[&str]) -> Option<Value> {
        let (plane, words) = (Arc::clone(&self.plane), words.to_vec());
        self.network.within(move || plane.get(&words).map_err(std::io::Error::other)).ok()
    }

    /// Creates or updates an object.
    #[track_caller]
    pub(crate) fn apply(&self, object: Value) {
        let plane = Arc::clone(&self.plane);
        let applied = self.network.within(move || plane.apply(&object).map_err(std::io::Error::other));
        applied.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Uses the control plane inside the machine's network.
    #[track_caller]
    pub(crate) fn with_plane<T: Send>(&self, use_it: impl FnOnce(&ControlPlane) -> T + Send) -> T {
        let plane = Arc::clone(&self.plane);
        self.network.within(move || Ok(use_it(&plane))).unwrap_or_else(|error: std::io::Error| panic!("{error}"))
    }

    /// The Node object, if the node has registered.
    pub(crate) fn node(&self) -> Option<Value> {
        let plane = Arc::clone(&self.plane);
        self.network.within(move || plane.get(&["node", "node-1"]).map_err(std::io::Error::other)).ok()
    }

    /// Whether the node's Ready condition is true.
    pub(crate) fn is_ready(&self) -> bool {
        let node = self.node().unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Stops the API server.
    #[track_caller]
    pub(crate) fn stop(&self) {
        let plane = Arc::clone(&self.plane);
        let stopped = self.network.within(move || plane.stop_api_server().map_err(std::io::Error::other));
        stopped.unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The objects with which nodes join by a bootstrap token, and their CSRs are approved.
pub(crate) fn joining_objects() -> Vec<Value> {
    let (id, secret) = TOKEN;
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
    })];
    for role in ["system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"] {
        let api = "rbac.authorization.k8s.io";
        objects.push(json!({
            "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("kiln-test-{}", role.rsplit(':').next().unwrap_or_default())},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:bootstrappers"}],
        }));
    }
    objects
}

/// A NodeConfig for a real kubelet in a container: the cgroupfs driver, and no setting that needs privileges on the host.
pub(crate) fn node_document(plane: &ControlPlane, host_name: &str, generation: u64) -> Document {
    let port = plane.address().port();
    Document::new(generation)
        .with("/spec/cluster/endpoint", json!(format!("https://kubernetes:{port}")))
        .with("/spec/cluster/certificateAuthority", json!(plane.authority()))
        .with("/spec/credentialFrom", json!({"kind": "customData"}))
        .with("/spec/platform/hostName", json!(host_name))
        .with(
            "/spec/kubelet/configuration",
            json!({
                "address": "127.0.0.1",
                "failSwapOn": false,
                "makeIPTablesUtilChains": false,
                // The kubelet renews its lease every quarter of this, that is every second.
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
        // No gates are named, so the defaults apply: the kubelet is healthy and the node is ready.
        .with("/spec/health", json!({"withinSeconds": 600}))
}

/// A machine with kilnd, a real containerd and a real kubelet, which has the simplest possible unit.
pub(crate) fn real(name: &str) -> Blueprint {
    let service = "[Unit]\nDescription=kubelet\n[Service]\nExecStart=/usr/bin/kubelet\n";
    with_kubelet(Stage::kilnd(name), "/usr/bin/kubelet")
        .file("/etc/systemd/system/copy-boot-id.service", COPY_BOOT_ID)
        .wanted_by("sysinit.target", "copy-boot-id.service")
        .file("/usr/lib/systemd/system/kiln-watch.service.d/40-boot-id.conf", SHOW_BOOT_ID)
        .file("/usr/lib/systemd/system/kubelet.service", service)
        .link("/usr/lib/systemd/system/multi-user.target.wants/kubelet.service", "../kubelet.service")
}

/// Adds a real containerd and the program of a real kubelet, without a unit for it.
pub(crate) fn with_kubelet(blueprint: Blueprint, path: &str) -> Blueprint {
    let cache = Cache::of_user().unwrap_or_else(|error| panic!("{error}"));
    let kubelet = KubePrograms::of_user(cache).find("kubelet").unwrap_or_else(|missing| panic!("{missing}"));
    // `kubelet` may be a link to a multi-call binary.
    let kubelet = kubelet.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", kubelet.display()));
    let image = json!({"kubelets": {"1.34.4": path}, "runtimes": {"1.6.20": "/usr/bin/containerd"}});
    blueprint
        .shared(&kubelet, path)
        .file("/usr/lib/kiln/image.json", image.to_string())
        .file(NETWORK_FILE, NETWORK)
        .file("/etc/hosts", HOSTS)
        // containerd's overlay mounts cannot be nested in an overlay; the kubelet measures the underlying file system.
        .scratch("/var/lib/containerd")
        .scratch("/var/lib/kubelet")
        .pretend(&SETTINGS)
        .cgroups()
        .argument("--capability=all")
        // The kubelet reads OOM kills from it.
        .argument("--bind=/dev/kmsg")
}
