//! Keeps the Node object up to date, and only writes what differs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::apiserver::{self, Client, Condition, Event, Node as Object, Severity, Target};
use crate::os::{Generations, clock};
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::{CLIENT_CERTIFICATE, GIVEN_CERTIFICATE};

use super::requests::Requests;
use crate::node::Node;

/// Changing its value makes the node poll for a document at once.
pub(super) const CHECK: &str = "kiln.dev/node-config-check";
/// The hash of the document that the cluster allows: the node is drained for it.
pub(super) const ALLOW: &str = "kiln.dev/node-config-allow";
/// Number and hash of the document in force.
const IN_FORCE: &str = "kiln.dev/node-config";
/// How many events are kept while the API server cannot be reached. The oldest are dropped.
const QUEUED: usize = 16;

/// The connection to the cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    client: Option<(Target, Client)>,
    /// The API server of the document before the one on trial, if it differs.
    previous: Option<Client>,
    events: Vec<(Event, String)>,
    last_error: Option<String>,
}

impl Cluster {
    /// Uses the API server of the document in force. A changed target creates a new client.
    pub(super) fn set_document(&mut self, node: &Node, config: &NodeConfig) {
        let Some((target, name)) = target(node, config) else {
            self.client = None;
            return;
        };
        if self.client.as_ref().is_none_or(|(known, client)| *known != target || client.name() != name) {
            self.client = Some((target.clone(), Client::new(target, &name)));
        }
    }

    /// Sets the document before the one on trial. A client is kept only if it reaches the API server in another way.
    pub(super) fn set_previous(&mut self, node: &Node, config: Option<&NodeConfig>) {
        let found = config.and_then(|config| target(node, config));
        let differs = |known: &Target, target: &Target| {
            (&known.server, &known.authority, &known.proxy) != (&target.server, &target.authority, &target.proxy)
        };
        let found = found.filter(|(target, _)| self.client.as_ref().is_none_or(|(known, _)| differs(known, target)));
        self.previous = found.map(|(target, name)| Client::new(target, &name));
    }

    /// The client of the document before the one on trial, if it differs.
    pub(super) fn previous(&self) -> Option<&Client> {
        self.previous.as_ref()
    }

    /// The client, if the API server is known.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref().map(|(_, client)| client)
    }

    /// The API server and the name of the node, if they are known.
    pub(super) fn target(&self) -> Option<(&Target, &str)> {
        self.client.as_ref().map(|(target, client)| (target, client.name()))
    }

    /// Queues an event. It is posted when the API server can be reached.
    pub(super) fn queue_event(&mut self, severity: Severity, reason: &str, message: &str) {
        if self.events.len() == QUEUED {
            self.events.remove(0);
        }
        let event = Event { severity, reason: reason.to_owned(), message: message.to_owned() };
        self.events.push((event, clock::rfc3339(clock::wall())));
    }

    /// Reads the Node object, updates it, and removes fulfilled requests. Returns nothing if the API server cannot be reached, which is
    /// logged once.
    pub(super) fn sync(
        &mut self,
        node: &Node,
        requests: &mut Requests,
        report: impl FnOnce(&Requests) -> (Condition, Option<String>),
    ) -> Option<Object> {
        let (_, client) = self.client.as_ref()?;
        let result = exchange(client, requests, &mut self.events, report);
        let error = match result {
            Ok(object) => {
                if self.last_error.take().is_some() {
                    node.log.info("the API server can be reached again");
                }
                return Some(object);
            }
            Err(error) => crate::log::error_line(&error),
        };
        if self.last_error.as_ref() != Some(&error) {
            node.log.info(&format!("cannot update the Node object: {error}"));
            self.last_error = Some(error);
        }
        None
    }
}

/// The API server of a document, and the name of the node.
fn target(node: &Node, config: &NodeConfig) -> Option<(Target, String)> {
    let name = node_name(node, config);
    let cluster = &config.spec.cluster;
    if cluster.endpoint.is_empty() || name.is_empty() {
        return None;
    }
    let below = |path: &str| node.root.path().join(path.trim_start_matches('/'));
    let mut certificates: Vec<PathBuf> = vec![below(CLIENT_CERTIFICATE)];
    if let Ok(Some(folder)) = Generations::new(&node.root).current() {
        certificates.push(below(&Generations::folder(&folder)).join(GIVEN_CERTIFICATE));
    }
    let target = Target {
        server: cluster.endpoint.clone(),
        authority: cluster.certificate_authority.clone(),
        certificates,
        proxy: super::proxy::for_api_server(config),
    };
    Some((target, name))
}

/// The hash in the value of [`ALLOW`]: alone, or as in the annotations that the node writes (`generation 3 (HASH)`). A number alone is not
/// accepted: another document may have it by the time the node is drained.
pub(super) fn allowed_hash(value: &str) -> Option<String> {
    let hash = value.split_whitespace().next_back()?.trim_matches(['(', ')']);
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash.to_owned())
}

fn exchange(
    client: &Client,
    requests: &mut Requests,
    events: &mut Vec<(Event, String)>,
    report: impl FnOnce(&Requests) -> (Condition, Option<String>),
) -> Result<Object, apiserver::Error> {
    let mut object = client.node()?;
    requests.remove_fulfilled(&object);
    let own = requests.own_labels();
    if !own.is_empty() {
        object = client.patch_labels(&own)?;
        requests.remove_fulfilled(&object);
    }
    let (condition, in_force) = report(requests);
    let mut annotations = requests.annotations();
    annotations.insert(IN_FORCE.to_owned(), in_force);
    let differing: BTreeMap<String, Option<String>> =
        annotations.into_iter().filter(|(name, value)| object.annotations.get(name) != value.as_ref()).collect();
    if !differing.is_empty() {
        object = client.patch_annotations(&differing)?;
    }
    let now = clock::rfc3339(clock::wall());
    if !condition.is_set_on(&object) {
        object = client.set_condition(&condition, &object, &now)?;
    }
    while let Some((event, at)) = events.first() {
        client.post_event(event, at)?;
        events.remove(0);
    }
    Ok(object)
}

/// The name of the Node: the host name in lower case, as the kubelet uses it.
fn node_name(node: &Node, config: &NodeConfig) -> String {
    let configured = &config.spec.platform.host_name;
    let read = |path: &str| node.root.read_if_exists(path).ok().flatten().unwrap_or_default();
    let found =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter().map(read).find(|text| !text.trim_ascii().is_empty());
    let name = if configured.is_empty() {
        String::from_utf8_lossy(&found.unwrap_or_default()).into_owned()
    } else {
        configured.clone()
    };
    name.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_names_a_document_by_its_hash() {
        let hash = "ab".repeat(32);
        for value in [hash.clone(), format!(" {hash}\n"), format!("generation 3 ({hash})"), format!("3 {hash}")] {
            assert_eq!(allowed_hash(&value), Some(hash.clone()), "{value}");
        }
        for value in ["", "3", "generation 3", "abab", &hash[1..], &format!("{hash} 3")] {
            assert_eq!(allowed_hash(value), None, "{value}");
        }
    }
}
