//! Events about what a run did to a node, and about objects of the fleet.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kiln_types::Node;
use kube::Api;
use kube::api::PostParams;

use crate::name::Owner;
use crate::request::once;
use crate::{Cluster, Error};

/// Events about cluster-scoped objects are stored in this namespace.
const NAMESPACE: &str = "default";
/// The server's limit for `note`.
const LONGEST_NOTE: usize = 1024;
const CONTROLLER: &str = "kiln.dev/kiln";

/// The `type` of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

/// An event on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    pub kind: EventKind,
    /// One word, such as `Drain`.
    pub action: &'static str,
    /// One word, such as `DrainFailed`.
    pub reason: &'static str,
    pub note: String,
}

impl NodeEvent {
    fn as_ref(&self) -> EventText<'_> {
        EventText { kind: self.kind, action: self.action, reason: self.reason, note: &self.note }
    }
}

/// The content of an event on any object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventText<'a> {
    pub kind: EventKind,
    pub action: &'a str,
    pub reason: &'a str,
    pub note: &'a str,
}

impl Cluster {
    /// Records an event on a node. It is sent once: events are best effort, and callers continue when one is lost.
    pub async fn record_event(&self, node: &Node, run: &Owner, event: &NodeEvent) -> Result<(), Error> {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.name.to_string()),
            uid: Some(node.uid.clone()),
            ..ObjectReference::default()
        };
        self.record_event_about(about, run, &event.as_ref()).await
    }

    /// Records an event on a cluster-scoped object, once like [`Self::record_event`].
    pub async fn record_event_about(
        &self,
        about: ObjectReference,
        by: &Owner,
        event: &EventText<'_>,
    ) -> Result<(), Error> {
        let kind = about.kind.as_deref().unwrap_or("object").to_owned();
        let name = about.name.clone().unwrap_or_default();
        // The server adds five characters, and a name has at most 253.
        let prefix: String = name.chars().take(240).collect();
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.options.clock.now())),
            type_: Some(if event.kind == EventKind::Normal { "Normal" } else { "Warning" }.to_owned()),
            action: Some(event.action.to_owned()),
            reason: Some(event.reason.to_owned()),
            note: Some(truncate(event.note)),
            regarding: Some(about),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(by.to_string()),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let action = format!("create an event for {kind} `{name}`");
        once(&action, api.create(&PostParams::default(), &event)).await.map(drop)
    }
}

fn truncate(note: &str) -> String {
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
    fn long_notes_are_truncated_at_a_character_boundary() {
        assert_eq!(truncate("short"), "short");
        for filler in ["x", "é", "語"] {
            let short = truncate(&filler.repeat(2000));
            assert!(short.len() <= LONGEST_NOTE && short.ends_with('…'), "{}", short.len());
        }
    }
}
