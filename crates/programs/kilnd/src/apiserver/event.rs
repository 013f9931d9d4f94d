//! An event about a node.

use serde_json::{Value, json};

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// An event about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    /// A CamelCase word.
    pub reason: String,
    pub message: String,
}

/// The longest message that the API server accepts, in bytes.
const LONGEST: usize = 1024;

impl Event {
    /// The Event object. Like the kubelet's events it is in the namespace `default` and has the node's name as its uid, because that is what
    /// `kubectl describe node` selects.
    pub(crate) fn object(&self, node: &str, now: &str) -> Value {
        let message: String = self
            .message
            .chars()
            .scan(0, |length, c| {
                *length += c.len_utf8();
                (*length <= LONGEST).then_some(c)
            })
            .collect();
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{node}."), "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": node, "uid": node},
            "type": match self.severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
            "reason": self.reason,
            "message": message,
            "source": {"component": "kilnd", "host": node},
            "reportingComponent": "kilnd",
            "reportingInstance": node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_is_cut_between_characters() {
        let event = Event { severity: Severity::Warning, reason: "R".to_owned(), message: "ä".repeat(600) };
        let message = event.object("n", "")["message"].as_str().expect("text").to_owned();
        assert_eq!(message.len(), 1024);
    }
}
