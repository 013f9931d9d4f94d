//! The node's object in the cluster: what it is told, and only when it differs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::apiserver::{self, Client, Condition, Event, Node as Object, Place, Severity};
use crate::os::{Generations, clock};
use kiln_node_config::NodeConfig;
use kiln_node_plan::layout::CLIENT_CERTIFICATE;

use super::requests::Wishes;
use crate::node::Node;

/// Anybody who changes its value asks the node to look for a document now.
pub(super) const CHECK: &str = "kiln.dev/node-config-check";
/// The number of the document that the cluster has made room for: its pods have left.
pub(super) const ALLOW: &str = "kiln.dev/node-config-allow";
/// The number and hash of the document in force.
const IN_FORCE: &str = "kiln.dev/node-config";
/// In a generation: the certificate and key that the node was given.
const GIVEN_CERTIFICATE: &str = "client.pem";
/// How many events wait for an API server that is away. The oldest are the least interesting by then.
const WAITING: usize = 16;

/// The cluster, as this node reaches it.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    client: Option<(Place, Client)>,
    events: Vec<(Event, String)>,
    last_error: Option<String>,
}

impl Cluster {
    /// Reaches the cluster by the document in force. A changed address or authority makes a new client.
    pub(super) fn follow(&mut self, node: &Node, config: &NodeConfig) {
        let name = node_name(node, config);
        let cluster = &config.spec.cluster;
        if cluster.endpoint.is_empty() || name.is_empty() {
            self.client = None;
            return;
        }
        let below = |path: &str| node.root.path().join(path.trim_start_matches('/'));
        let mut certificates: Vec<PathBuf> = vec![below(CLIENT_CERTIFICATE)];
        if let Ok(Some(folder)) = Generations::of(&node.root).current() {
            certificates.push(below(&Generations::folder(&folder)).join(GIVEN_CERTIFICATE));
        }
        let place = Place {
            server: cluster.endpoint.clone(),
            authority: cluster.certificate_authority.clone(),
            certificates,
            proxy: super::proxy::to_the_cluster(config),
        };
        if self.client.as_ref().is_none_or(|(known, client)| *known != place || client.name() != name) {
            self.client = Some((place.clone(), Client::new(place, &name)));
        }
    }

    /// The client.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref().map(|(_, client)| client)
    }

    /// Something happened. It is told when the cluster can be reached.
    pub(super) fn happened(&mut self, severity: Severity, reason: &str, message: &str) {
        if self.events.len() == WAITING {
            self.events.remove(0);
        }
        let event = Event { severity, reason: reason.to_owned(), message: message.to_owned() };
        self.events.push((event, clock::rfc3339(clock::wall())));
    }

    /// Reads the node's object, makes it what this node may make it, and crosses out what is done. None where it cannot be reached, which
    /// is said once.
    pub(super) fn tell(
        &mut self,
        node: &Node,
        wishes: &mut Wishes,
        telling: impl FnOnce(&Wishes) -> (Condition, Option<String>),
    ) -> Option<Object> {
        let (_, client) = self.client.as_ref()?;
        let result = exchange(client, wishes, &mut self.events, telling);
        let error = match result {
            Ok(object) => {
                if self.last_error.take().is_some() {
                    node.journal.say("the API server answers again");
                }
                return Some(object);
            }
            Err(error) => crate::log::chain(&error).join(": "),
        };
        if self.last_error.as_ref() != Some(&error) {
            node.journal.say(&format!("the node's object is not up to date: {error}"));
            self.last_error = Some(error);
        }
        None
    }
}

fn exchange(
    client: &Client,
    wishes: &mut Wishes,
    events: &mut Vec<(Event, String)>,
    telling: impl FnOnce(&Wishes) -> (Condition, Option<String>),
) -> Result<Object, apiserver::Error> {
    let mut object = client.node()?;
    wishes.cross_out(&object);
    let own = wishes.own_labels();
    if !own.is_empty() {
        object = client.patch_labels(&own)?;
        wishes.cross_out(&object);
    }
    let (condition, in_force) = telling(wishes);
    let mut said = wishes.annotations();
    said.insert(IN_FORCE.to_owned(), in_force);
    let differing: BTreeMap<String, Option<String>> =
        said.into_iter().filter(|(name, value)| object.annotations.get(name) != value.as_ref()).collect();
    if !differing.is_empty() {
        object = client.patch_annotations(&differing)?;
    }
    let now = clock::rfc3339(clock::wall());
    if !condition.is_said_by(&object) {
        object = client.set_condition(&condition, &object, &now)?;
    }
    while let Some((event, at)) = events.first() {
        client.post_event(event, at)?;
        events.remove(0);
    }
    Ok(object)
}

/// A node's name is its host name, as the kubelet takes it.
fn node_name(node: &Node, config: &NodeConfig) -> String {
    let given = &config.spec.platform.host_name;
    let read = |path: &str| node.root.read_if_there(path).ok().flatten().unwrap_or_default();
    let found =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter().map(read).find(|text| !text.trim_ascii().is_empty());
    let name =
        if given.is_empty() { String::from_utf8_lossy(&found.unwrap_or_default()).into_owned() } else { given.clone() };
    name.trim().to_ascii_lowercase()
}
