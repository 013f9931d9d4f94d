//! The NodeState of this node: reading, following and reporting it, and reading the NodeConfig that it names.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

use kiln_node_config::node_state::{NodeStateSpec, NodeStateStatus, PLURAL};
use kiln_node_config::v1alpha1::API_VERSION;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::BodyReader;

use crate::apiserver::client::Client;
use crate::apiserver::connection::{Call, Stream};
use crate::apiserver::error::Error;

/// Replaces the whole status. A merge patch could not: in it, a label with the value null, which asks to remove the label from the Node,
/// would only remove the request.
const JSON_PATCH: &str = "application/json-patch+json";
/// How long the API server keeps a watch open, in seconds. A watch that ends by itself shows that the connection works.
const OPEN: u32 = 300;
/// The longest event. A NodeState has a few KiB.
const EVENT: u64 = 1 << 20;

/// A NodeState, as far as kilnd reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Differs for a later NodeState with the same name.
    pub uid: String,
    /// Changes with every change of the spec.
    pub generation: i64,
    pub spec: NodeStateSpec,
    /// Empty if another version of kilnd wrote one that this version cannot read.
    pub status: NodeStateStatus,
}

/// A change that a watch reports, with the version from which another watch continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStateEvent {
    Changed(Box<NodeState>, String),
    Deleted(String),
    /// Nothing changed.
    Bookmark(String),
    /// The API server does not know the version any more, or failed: the object has to be read again.
    Expired,
}

/// An open watch.
pub struct NodeStateEvents {
    lines: BufReader<BodyReader<'static>>,
    url: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: NodeStateSpec,
    #[serde(default)]
    status: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    generation: i64,
    resource_version: String,
}

impl From<Object> for NodeState {
    fn from(object: Object) -> Self {
        let Object { metadata, spec, status } = object;
        let status = serde_json::from_value(status).unwrap_or_default();
        Self { uid: metadata.uid, generation: metadata.generation, spec, status }
    }
}

impl Client {
    /// The NodeState of this node, if there is one, and the version from which a watch continues. Selected from the list by its name, since
    /// that also works if the node may read nothing else.
    pub fn node_state(&self) -> Result<(Option<NodeState>, String), Error> {
        #[derive(Deserialize)]
        struct List {
            metadata: Metadata,
            items: Vec<Object>,
        }
        let path = self.selection();
        let body = self.send(&path, &Call::Get)?;
        let list: List = serde_json::from_slice(&body).map_err(self.unreadable(&path))?;
        Ok((list.items.into_iter().next().map(NodeState::from), list.metadata.resource_version))
    }

    /// Starts to watch the NodeState from a version.
    pub fn watch_node_state(&self, version: &str) -> Result<NodeStateEvents, Error> {
        let selection = self.selection();
        let path =
            format!("{selection}&watch=1&allowWatchBookmarks=true&timeoutSeconds={OPEN}&resourceVersion={version}");
        let Stream { status, body } = self.connection.watch(&path)?;
        if status != 200 {
            let mut text = Vec::new();
            // An unreadable body has no message.
            let _ = body.take(EVENT).read_to_end(&mut text);
            return Err(self.refused(&path, status, &text));
        }
        Ok(NodeStateEvents { lines: BufReader::new(body), url: self.connection.url(&path) })
    }

    /// The document of a NodeConfig.
    pub fn node_config(&self, name: &str) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct NodeConfig {
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Spec {
            document: String,
        }
        let path = format!("/apis/{API_VERSION}/nodeconfigs/{name}");
        let body = self.send(&path, &Call::Get)?;
        let found: NodeConfig = serde_json::from_slice(&body).map_err(self.unreadable(&path))?;
        Ok(found.spec.document)
    }

    /// Replaces the status of the NodeState.
    pub fn report_node_state(&self, status: &NodeStateStatus) -> Result<(), Error> {
        let path = format!("/apis/{API_VERSION}/{PLURAL}/{}/status", self.name());
        let operations = json!([{"op": "add", "path": "/status", "value": status}]).to_string();
        self.send(&path, &Call::Patch(JSON_PATCH, operations.as_bytes())).map(drop)
    }

    /// Uses other files to authenticate.
    pub(crate) fn set_certificates(&mut self, certificates: &[PathBuf]) {
        self.connection.set_certificates(certificates);
    }

    fn selection(&self) -> String {
        format!("/apis/{API_VERSION}/{PLURAL}?fieldSelector=metadata.name%3D{}", self.name())
    }
}

impl NodeStateEvents {
    /// Waits for the next event; none at the end of the watch.
    pub fn wait(&mut self) -> Result<Option<NodeStateEvent>, Error> {
        let mut line = Vec::new();
        match (&mut self.lines).take(EVENT).read_until(b'\n', &mut line) {
            Ok(0) => Ok(None),
            Ok(_) => match NodeStateEvent::parse(&line) {
                Ok(event) => Ok(Some(event)),
                Err(source) => Err(Error::Response { url: self.url.clone(), source }),
            },
            Err(error) => Err(Error::Unreachable { url: self.url.clone(), source: Box::new(error.into()) }),
        }
    }
}

impl NodeStateEvent {
    /// Parses a line of a watch.
    fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "type")]
            kind: String,
            object: Value,
        }
        #[derive(Deserialize)]
        struct Versioned {
            metadata: Metadata,
        }
        let Event { kind, object } = serde_json::from_slice(line)?;
        let version =
            |object: Value| serde_json::from_value::<Versioned>(object).map(|object| object.metadata.resource_version);
        Ok(match kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let object: Object = serde_json::from_value(object)?;
                let version = object.metadata.resource_version.clone();
                Self::Changed(Box::new(object.into()), version)
            }
            "DELETED" => Self::Deleted(version(object)?),
            "BOOKMARK" => Self::Bookmark(version(object)?),
            _ => Self::Expired,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, object: &Value) -> NodeStateEvent {
        NodeStateEvent::parse(json!({"type": kind, "object": object}).to_string().as_bytes()).expect("an event")
    }

    #[test]
    fn events_of_a_watch_are_parsed() {
        let object = json!({
            "metadata": {"name": "n", "uid": "u", "generation": 4, "resourceVersion": "17"},
            "spec": {"desired": {"nodeConfig": "web", "digest": "d", "later": 1}, "allow": "d"},
            "status": {"phase": "OfALaterVersion"},
        });
        let NodeStateEvent::Changed(state, version) = event("MODIFIED", &object) else { panic!("not a change") };
        assert_eq!((state.generation, state.uid.as_str(), version.as_str()), (4, "u", "17"));
        assert_eq!(state.spec.desired.map(|desired| desired.node_config).as_deref(), Some("web"));
        assert_eq!((state.spec.allow.as_deref(), state.status), (Some("d"), NodeStateStatus::default()));
        assert_eq!(event("DELETED", &object), NodeStateEvent::Deleted("17".to_owned()));
        let bookmark = json!({"kind": "NodeState", "metadata": {"resourceVersion": "18"}});
        assert_eq!(event("BOOKMARK", &bookmark), NodeStateEvent::Bookmark("18".to_owned()));
        assert_eq!(event("ERROR", &json!({"kind": "Status", "code": 410})), NodeStateEvent::Expired);
        assert!(NodeStateEvent::parse(b"{\"type\": \"ADDED\"").is_err(), "half a line");
    }
}
