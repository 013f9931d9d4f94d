//! A real control plane in a world, and the service by which its nodes join.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use serde_json::{Value, json};
use testkit::nspawn::{Request, Response, Server};

/// The world's own address.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A real control plane, and the service by which its nodes join.
pub(crate) struct Cluster {
    pub(crate) plane: ControlPlane,
    /// Where its nodes join.
    pub(crate) join: Server,
    /// The token that new nodes get; it changes.
    token: Arc<Mutex<(String, String)>>,
}

impl Cluster {
    /// Starts both at the world's own address.
    pub(crate) fn start(folder: &Path) -> Self {
        let arguments = [
            "--bind-address=0.0.0.0",
            "--advertise-address=10.77.0.1",
            // No name of a machine is known here.
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
        let listener = TcpListener::bind(SocketAddr::from((GATEWAY, 0))).expect("an address of the world");
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

    /// Another token for those that join from now on.
    pub(crate) fn rotate(&self, id: &str, secret: &str) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
            "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
        }));
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = (id.to_owned(), secret.to_owned());
    }

    /// Nobody joins with a token any more.
    pub(crate) fn revoke(&self, id: &str) {
        let secret = format!("bootstrap-token-{id}");
        let deleted = self.plane.run_kubectl(&["delete", "secret", "--namespace", "kube-system", &secret]);
        deleted.unwrap_or_else(|error| panic!("{error}"));
    }

    /// What a node is to be: control groups by itself, and nothing that needs more than root in a container.
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
                        // The disk is the host's, which tests share with compilers.
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
                            // The root of the machine is an overlay, on which no other can lie.
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

    /// Whether a node says that it is ready.
    pub(crate) fn is_ready(&self, node: &str) -> bool {
        let node = self.get(&["node", node]).unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Waits until something is so.
    #[track_caller]
    pub(crate) fn wait<T>(what: &str, seconds: u32, look: impl Fn() -> Option<T>) -> T {
        for _ in 0..seconds * 5 {
            if let Some(found) = look() {
                return found;
            }
            thread::sleep(Duration::from_millis(200));
        }
        panic!("waited in vain until {what}")
    }
}
