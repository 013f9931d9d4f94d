//! What a node asks of its API server, and tells it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::apiserver::condition::Condition;
use crate::apiserver::connection::{Answer, Connection, Place, Send};
use crate::apiserver::error::Error;
use crate::apiserver::event::Event;
use crate::apiserver::node::Node;

/// Maps are merged, and what is null goes.
const MERGE: &str = "application/merge-patch+json";
/// Lists whose elements have a key are merged by it: conditions of others stay.
const STRATEGIC: &str = "application/strategic-merge-patch+json";
/// As much of an answer as a person reads.
const SHOWN: usize = 300;

/// What the server says when it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
}

/// A node's own client.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    node: String,
}

impl Client {
    /// A client for a node. Nothing is read or asked yet: the certificate may come later.
    pub fn new(place: Place, node: &str) -> Self {
        Self { connection: Connection::new(place), node: node.to_owned() }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.node
    }

    /// The node's own object.
    pub fn node(&self) -> Result<Node, Error> {
        self.object(&self.path(""), &Send::Get)
    }

    /// Changes labels; none takes one away. The server refuses those that no node may give itself.
    pub fn patch_labels(&self, labels: &BTreeMap<String, Option<String>>) -> Result<Node, Error> {
        self.patch(MERGE, "", &json!({"metadata": {"labels": labels}}))
    }

    /// Changes annotations; none takes one away.
    pub fn patch_annotations(&self, annotations: &BTreeMap<String, Option<String>>) -> Result<Node, Error> {
        self.patch(MERGE, "", &json!({"metadata": {"annotations": annotations}}))
    }

    /// Sets a condition. `node` is the object as it was read last, by which the time of the last change is told; `now` is the time as
    /// RFC 3339 writes it.
    pub fn set_condition(&self, condition: &Condition, node: &Node, now: &str) -> Result<Node, Error> {
        let condition = condition.at(now, node);
        self.patch(STRATEGIC, "/status", &json!({"status": {"conditions": [condition]}}))
    }

    /// Tells an event.
    pub fn post_event(&self, event: &Event, now: &str) -> Result<(), Error> {
        let body = event.object(&self.node, now).to_string();
        self.send("/api/v1/namespaces/default/events", &Send::Post(body.as_bytes())).map(drop)
    }

    /// When the kubelet last renewed the node's lease: it is alive and reaches the server when this changes. None where it never did.
    pub fn renewed(&self) -> Result<Option<String>, Error> {
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
        match self.send(&path, &Send::Get) {
            Ok(body) => match serde_json::from_slice::<Lease>(&body) {
                Ok(lease) => Ok(lease.spec.renew_time),
                Err(source) => Err(Error::Answer { url: self.connection.url(&path), source }),
            },
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn patch(&self, kind: &'static str, subresource: &str, patch: &Value) -> Result<Node, Error> {
        self.object(&self.path(subresource), &Send::Patch(kind, patch.to_string().as_bytes()))
    }

    fn path(&self, subresource: &str) -> String {
        format!("/api/v1/nodes/{}{subresource}", self.node)
    }

    fn object(&self, path: &str, send: &Send<'_>) -> Result<Node, Error> {
        let body = self.send(path, send)?;
        Node::parse(&body).map_err(|source| Error::Answer { url: self.connection.url(path), source })
    }

    fn send(&self, path: &str, send: &Send<'_>) -> Result<Vec<u8>, Error> {
        let Answer { status, body } = self.connection.send(path, send)?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let said: Status = serde_json::from_slice(&body).unwrap_or_default();
        let message = if said.message.is_empty() { String::from_utf8_lossy(&body).into_owned() } else { said.message };
        let message = message.chars().take(SHOWN).collect();
        Err(Error::Refused { url: self.connection.url(path), status, reason: said.reason, message })
    }
}
