//! A real control plane in a sandbox, and the service that gives its nodes the credential to join.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use testkit::nspawn::{Request, Response, Server};

/// The address of the sandbox.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A real control plane, and the service that gives its nodes the credential to join.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
    pub(crate) join: Server,
    /// The current bootstrap token.
    token: Arc<Mutex<(String, String)>>,
}

impl Cluster {
    /// Starts both at the address of the sandbox.
    pub(crate) fn start(folder: &Path) -> Self {
        let arguments = [
            "--bind-address=0.0.0.0",
            "--advertise-address=10.77.0.1",
            // There is no DNS for machines.
            "--kubelet-preferred-address-types=InternalIP",
        ];
        let options = Options { api_server_arguments: arguments.map(str::to_owned).into(), ..Options::default() };
        let plane = ControlPlane::start(&options.in_root(folder)).unwrap_or_else(|error| panic!("{error}"));
        let token = Arc::new(Mutex::new((String::new(), String::new())));
        let shared = Arc::clone(&token);
        let answer = move |_: &Request| {
            let (id, secret) = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let status = json!({"token": format!("{id}.{secret}")});
            let kind =
                json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
            Response::json(kind.to_string())
        };
        let listener = TcpListener::bind(SocketAddr::from((GATEWAY, 0))).expect("the address of the sandbox");
        let cluster = Self { plane, join: Server::start(listener, answer), token };
        cluster.rotate("first0", "0123456789abcdef");
        for role in ["system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"] {
            let api = "rbac.authorization.k8s.io";
            cluster.apply(&json!({
                "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("join-{}", role.rsplit(':').next().unwrap_or_default())},
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": api, "kind": "Group", "name": "system:bootstrappers"}],
            }));
        }
        cluster
    }

    /// Replaces the bootstrap token of new nodes.
    pub(crate) fn rotate(&self, id: &str, secret: &str) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
        }));
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = (id.to_owned(), secret.to_owned());
    }

    /// Revokes a bootstrap token.
    pub(crate) fn revoke(&self, id: &str) {
        let secret = format!("bootstrap-token-{id}");
        let deleted = self.plane.run_kubectl(&["delete", "secret", "--namespace", "kube-system", &secret]);
        deleted.unwrap_or_else(|error| panic!("{error}"));
    }

    /// The NodeConfig: control groups without systemd, and nothing that root in a container may not do.
    pub(crate) fn document(&self) -> Value {
        let port = self.plane.address().port();
        json!({
            "apiVersion": "node.kiln.dev/v1alpha1",
            "kind": "NodeConfig",
            "metadata": {"name": "pool", "generation": 1},
            "spec": {
                "cluster": {
                    "endpoint": format!("https://kubernetes:{port}"),
                    "certificateAuthority": self.plane.authority(),
                },
                "kubelet": {
                    "version": "1.34.4",
                    "configuration": {
                        "failSwapOn": false, "makeIPTablesUtilChains": false, "nodeLeaseDurationSeconds": 4,
                        // The disk is the host's, which other programs may fill.
                        "evictionHard": {"memory.available": "50Mi"}, "imageGCHighThresholdPercent": 100,
                        "nodeStatusUpdateFrequency": "1s",
                    },
                },
                "runtime": {
                    "systemdCgroup": false,
                    "configuration": {
                        "oom_score": 0,
                        "plugins": {"io.containerd.grpc.v1.cri": {
                            "restrict_oom_score_adj": true,
                            // The machine's root is an overlay, which cannot be a layer of another overlay.
                            "containerd": {"snapshotter": "native"},
                        }},
                    },
                },
                "credentialFrom": {"kind": "managedIdentity", "endpoint": format!("http://{}/", self.join.address())},
                "health": {"withinSeconds": 600},
            },
        })
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.plane.apply(object).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn get(&self, words: &[&str]) -> Option<Value> {
        self.plane.get(words).ok()
    }

    /// Whether a node is Ready.
    pub(crate) fn is_ready(&self, node: &str) -> bool {
        let node = self.get(&["node", node]).unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Waits until `look` returns a value.
    #[track_caller]
    pub(crate) fn wait<T>(what: &str, seconds: u32, look: impl Fn() -> Option<T>) -> T {
        for _ in 0..seconds * 5 {
            if let Some(found) = look() {
                return found;
            }
            thread::sleep(Duration::from_millis(200));
        }
        panic!("timed out waiting until {what}")
    }
}
