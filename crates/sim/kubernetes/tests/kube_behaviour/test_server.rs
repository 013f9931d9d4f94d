//! A server under test with its own namespace, a client, and `kubectl`.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kiln_sim_azure::tls::Tls;
use kiln_sim_kubernetes::serve::Socket;
use kiln_sim_kubernetes::{Clock, Server, Token, write_kubeconfig};
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use test_deps::{Cache, KubePrograms};
use tokio::sync::oneshot;

/// A server under test.
pub(crate) struct TestServer {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// Stops the embedded server.
    _stop: Option<oneshot::Sender<()>>,
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    /// The body of a successful response.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}: {:#}", self.code, self.body);
        self.body
    }

    /// Code and reason of an error response.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, &str) {
        assert_eq!(self.body["kind"], "Status", "{:#}", self.body);
        assert_eq!(self.body["status"], "Failure", "{:#}", self.body);
        (self.code, self.body["reason"].as_str().unwrap_or_default())
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[expect(clippy::disallowed_methods, reason = "real clients need the real time")]
fn clock() -> Clock {
    Arc::new(Timestamp::now)
}

impl TestServer {
    pub(crate) async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = clock();
        let tls = Tls::open(&folder.path().join("tls"), &[], clock()).unwrap();
        let server = Server::open(folder.path(), 1, clock).unwrap();
        let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let token = Token::random().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, socket.address, &tls.ca_file, &token).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(socket.serve(server, tls.config, token, async {
            let _ = stopped.await;
        }));
        let test_server = Self::at(kubeconfig, "default".to_owned(), folder, Some(stop)).await;
        let namespace = "behaviour".to_owned();
        test_server.post("/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await.ok();
        Self { namespace, ..test_server }
    }

    pub(crate) async fn real() -> Self {
        let (kubeconfig, namespace) = tokio::task::spawn_blocking(|| {
            let plane = control_plane::shared();
            (plane.kubeconfig().to_owned(), plane.namespace("behaviour").unwrap())
        })
        .await
        .unwrap();
        Self::at(kubeconfig, namespace, tempfile::tempdir().unwrap(), None).await
    }

    async fn at(
        kubeconfig: PathBuf,
        namespace: String,
        folder: tempfile::TempDir,
        stop: Option<oneshot::Sender<()>>,
    ) -> Self {
        kiln_tls::install();
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        // Error responses are tested here, so they are not retried.
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        Self { client, namespace, kubeconfig, folder, _stop: stop }
    }

    /// A client with a wrong token.
    pub(crate) async fn unauthenticated_client(&self) -> Client {
        let mut read = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        for user in &mut read.auth_infos {
            user.auth_info = Some(kube::config::AuthInfo {
                token: Some("not-a-valid-token".to_owned().into()),
                ..Default::default()
            });
        }
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// A name that no other test uses.
    pub(crate) fn unique(prefix: &str) -> String {
        control_plane::unique(prefix)
    }

    /// The path of a resource of the core group in the test's namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// The path of a resource of another group in the test's namespace.
    pub(crate) fn group_path(&self, group: &str, rest: &str) -> String {
        format!("/apis/{group}/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// Sends a request and returns the response.
    pub(crate) async fn call(&self, method: &str, path: &str, content_type: &str, body: Option<Value>) -> Reply {
        let request = Request::builder().method(method).uri(path).header("accept", "application/json");
        let request = match body {
            Some(body) => {
                request.header("content-type", content_type).body(Body::from(body.to_string().into_bytes())).unwrap()
            }
            None => request.body(Body::empty()).unwrap(),
        };
        let response = self.client.send(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let warnings = parts.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned());
        Reply {
            code: parts.status.as_u16(),
            warnings: warnings.collect(),
            body: serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, "", None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, "application/json", Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        self.call("PUT", path, "application/json", Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str, options: Value) -> Reply {
        self.call("DELETE", path, "application/json", Some(options)).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: Value) -> Reply {
        self.call("PATCH", path, kind, Some(body)).await
    }

    /// Creates a config map with one value.
    pub(crate) async fn config_map(&self, name: &str, value: &str) -> Value {
        self.post(&self.path("configmaps"), json!({"metadata": {"name": name}, "data": {"value": value}})).await.ok()
    }

    /// Creates a ready node.
    pub(crate) async fn node(&self) -> String {
        let name = Self::unique("node");
        self.post("/api/v1/nodes", json!({"metadata": {"name": name}})).await.ok();
        let ready = json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "up",
        }]}});
        self.patch(&format!("/api/v1/nodes/{name}/status"), STRATEGIC, ready).await.ok();
        name
    }

    /// Creates a pod, bound or unbound.
    pub(crate) async fn pod(&self, name: &str, node: Option<&str>, more: Value) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "pause:3.9"}]},
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        kiln_types::json::merge_patch(&mut pod, &more);
        self.post(&self.path("pods"), pod).await.ok()
    }

    /// Sets the status of a pod to running, as its kubelet would.
    pub(crate) async fn set_running(&self, name: &str, ready: bool) {
        let status = json!({"status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        }});
        self.patch(&self.path(&format!("pods/{name}/status")), STRATEGIC, status).await.ok();
    }

    /// Polls until the response matches. The controllers of the real server need time.
    pub(crate) async fn until(&self, path: &str, matches: impl Fn(&Reply) -> bool) -> Reply {
        let mut reply = self.get(path).await;
        for _ in 0..300 {
            if matches(&reply) {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            reply = self.get(path).await;
        }
        panic!("{path} did not reach the expected state: {:#}", reply.body);
    }

    /// Waits until an object is gone.
    pub(crate) async fn until_gone(&self, path: &str) {
        self.until(path, |reply| reply.code == 404).await;
    }

    /// Runs `kubectl` in the test's namespace; returns success, stdout and stderr.
    pub(crate) async fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let programs = KubePrograms::of_user(Cache::of_user().unwrap());
        let program = programs.find("kubectl").unwrap_or_else(|missing| panic!("{missing}"));
        let mut command = Command::new(program);
        command
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.folder.path().join("kubectl"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || {
            use std::io::Write as _;
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.success(), text(output.stdout), text(output.stderr))
        })
        .await
        .unwrap()
    }

    /// The output of a successful `kubectl`.
    pub(crate) async fn kubectl_ok(&self, arguments: &[&str]) -> String {
        let (done, stdout, stderr) = self.kubectl(arguments, "").await;
        assert!(done, "kubectl {arguments:?}: {stderr}");
        stdout
    }
}
