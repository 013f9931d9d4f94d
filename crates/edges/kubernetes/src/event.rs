//! What a run did to a node, where people look for it: in the node's events.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kiln_types::Node;
use kube::Api;
use kube::api::PostParams;

use crate::call::once;
use crate::name::Owner;
use crate::{Cluster, Error};

/// Events about what has no namespace are kept in this one.
const NAMESPACE: &str = "default";
/// The server refuses a longer sentence.
const LONGEST_NOTE: usize = 1024;
const CONTROLLER: &str = "kiln.dev/kiln";

/// Whether an event calls for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It does not.
    Normal,
    /// It does.
    Warning,
}

/// Something that a run did to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// Whether it calls for somebody.
    pub kind: EventKind,
    /// What was done, in one word: `Drain`.
    pub action: &'static str,
    /// What came of it, in one word: `DrainFailed`.
    pub reason: &'static str,
    pub note: String,
}

impl Cluster {
    /// Tells what a run did to a node. An event is no record: it is sent once, and whoever sends it goes on whether it arrived or not.
    pub async fn tell(&self, node: &Node, run: &Owner, event: &NodeEvent) -> Result<(), Error> {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name.to_string()),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", node.name)),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.options.clock.now())),
            type_: Some(if event.kind == EventKind::Normal { "Normal" } else { "Warning" }.to_owned()),
            action: Some(event.action.to_owned()),
            reason: Some(event.reason.to_owned()),
            note: Some(shortened(&event.note)),
            regarding: Some(about),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(run.to_string()),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let what = format!("tell an event of node `{}`", node.name);
        once(&what, api.create(&PostParams::default(), &event)).await.map(drop)
    }
}

fn shortened(note: &str) -> String {
    if note.len() <= LONGEST_NOTE {
        return note.to_owned();
    }
    let mut end = LONGEST_NOTE - '…'.len_utf8();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_the_server_would_refuse_is_shortened_between_characters() {
        assert_eq!(shortened("short"), "short");
        for filler in ["x", "é", "語"] {
            let short = shortened(&filler.repeat(2000));
            assert!(short.len() <= LONGEST_NOTE && short.ends_with('…'), "{}", short.len());
        }
    }
}
