//! Requests about the node's own objects.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::apiserver::condition::Condition;
use crate::apiserver::connection::{Call, Connection, Response, Target};
use crate::apiserver::error::Error;
use crate::apiserver::event::Event;
use crate::apiserver::node::Node;

/// Merges maps; null removes a key.
const MERGE: &str = "application/merge-patch+json";
/// Also merges lists by key, so that other conditions stay.
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// How much of an error response is shown.
const SHOWN: usize = 300;

/// An error response.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
}

/// A client that acts as one node.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: Connection,
    node: String,
}

impl Client {
    /// A client for a node. Does not connect yet: the certificate may not exist before the node has joined.
    pub fn new(target: Target, node: &str) -> Self {
        Self { connection: Connection::new(target), node: node.to_owned() }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.node
    }

    /// The Node object.
    pub fn node(&self) -> Result<Node, Error> {
        self.object(&self.path(""), &Call::Get)
    }

    /// Changes labels; `None` removes one. The server rejects labels that a node may not set itself.
    pub fn patch_labels(&self, labels: &BTreeMap<String, Option<String>>) -> Result<Node, Error> {
        self.patch(MERGE, "", &json!({"metadata": {"labels": labels}}))
    }

    /// Changes annotations; `None` removes one.
    pub fn patch_annotations(&self, annotations: &BTreeMap<String, Option<String>>) -> Result<Node, Error> {
        self.patch(MERGE, "", &json!({"metadata": {"annotations": annotations}}))
    }

    /// Sets a condition. `node` is the last known object, from which the transition time is kept if the status does not change. `now` is in
    /// RFC 3339.
    pub fn set_condition(&self, condition: &Condition, node: &Node, now: &str) -> Result<Node, Error> {
        let condition = condition.at(now, node);
        self.patch(STRATEGIC, "/status", &json!({"status": {"conditions": [condition]}}))
    }

    /// Posts an event.
    pub fn post_event(&self, event: &Event, now: &str) -> Result<(), Error> {
        let body = event.object(&self.node, now).to_string();
        self.send("/api/v1/namespaces/default/events", &Call::Post(body.as_bytes())).map(drop)
    }

    /// When the kubelet last renewed the node's lease; none if it never did. A change proves that the kubelet runs and reaches the server.
    pub fn lease_renewed_at(&self) -> Result<Option<String>, Error> {
        #[derive(Deserialize)]
        struct Lease {
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            renew_time: Option<String>,
        }
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}", self.node);
        match self.send(&path, &Call::Get) {
            Ok(body) => {
                let lease: Lease = serde_json::from_slice(&body).map_err(self.unreadable(&path))?;
                Ok(lease.spec.renew_time)
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn patch(&self, kind: &'static str, subresource: &str, patch: &Value) -> Result<Node, Error> {
        self.object(&self.path(subresource), &Call::Patch(kind, patch.to_string().as_bytes()))
    }

    fn path(&self, subresource: &str) -> String {
        format!("/api/v1/nodes/{}{subresource}", self.node)
    }

    fn object(&self, path: &str, call: &Call<'_>) -> Result<Node, Error> {
        let body = self.send(path, call)?;
        Node::parse(&body).map_err(self.unreadable(path))
    }

    pub(super) fn send(&self, path: &str, call: &Call<'_>) -> Result<Vec<u8>, Error> {
        let Response { status, body } = self.connection.send(path, call)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        Err(self.refused(path, status, &body))
    }

    /// The error of a response with an error status.
    pub(super) fn refused(&self, path: &str, status: u16, body: &[u8]) -> Error {
        let error: Status = serde_json::from_slice(body).unwrap_or_default();
        let message = if error.message.is_empty() { String::from_utf8_lossy(body).into_owned() } else { error.message };
        let message = message.chars().take(SHOWN).collect();
        Error::Refused { url: self.connection.url(path), status, reason: error.reason, message }
    }

    /// The error of a response that cannot be parsed.
    pub(super) fn unreadable(&self, path: &str) -> impl FnOnce(serde_json::Error) -> Error {
        let url = self.connection.url(path);
        move |source| Error::Response { url, source }
    }
}
