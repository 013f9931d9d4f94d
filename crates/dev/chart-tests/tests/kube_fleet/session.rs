//! Requests to a real API server as one identity.

use std::time::Duration;

use chart_tests::chart;
use control_plane::{ControlPlane, Identity};
use http::Request;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// The path of the custom resources.
pub(crate) const FLEET: &str = "/apis/node.kiln.dev/v1alpha1";

pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A client with the certificate of one identity.
pub(crate) struct Session {
    pub(crate) client: Client,
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The body of a successful response.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!(self.is_success(), "{}: {:#}", self.code, self.body);
        self.body
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Session {
    /// A session of this identity.
    pub(crate) async fn of(plane: &ControlPlane, identity: &Identity) -> Self {
        let kubeconfig = plane.kubeconfig_for(identity).unwrap();
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        // Error responses are tested here, so they are not retried.
        config.default_retry = false;
        Self { client: kiln_kubernetes::connect(config).unwrap() }
    }

    /// A session of a cluster admin.
    pub(crate) async fn admin(plane: &ControlPlane) -> Self {
        Self::of(plane, &Identity::admin()).await
    }

    /// Sends a request and returns the response. A list of watch events is the text of its body.
    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Reply {
        let request = Request::builder().method(method).uri(path).header("accept", JSON);
        let request = if body.is_null() {
            request.body(Body::empty()).unwrap()
        } else {
            request.header("content-type", content_type).body(Body::from(body.to_string().into_bytes())).unwrap()
        };
        let (parts, body) = self.client.send(request).await.unwrap().into_parts();
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
        self.send("GET", path, "", &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, JSON, &body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> Reply {
        self.send("PATCH", path, MERGE, &body).await
    }
}

/// An object of the fleet.
pub(crate) fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "node.kiln.dev/v1alpha1", "kind": kind, "metadata": {"name": name}});
    object["spec"] = spec;
    object
}

/// Polls until `check` returns a value.
pub(crate) async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(value) = check().await {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("timed out waiting until {what}");
}

/// Applies the definitions with kubectl and waits until the server serves them.
pub(crate) fn apply_definitions(plane: &ControlPlane) {
    let file = chart().join("files/fleet-crds.yaml").display().to_string();
    plane.run_kubectl(&["apply", "--server-side", "--validate=strict", "-f", &file]).unwrap();
    plane.run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file]).unwrap();
}
