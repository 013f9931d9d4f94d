//! An event about a node.

use serde_json::{Value, json};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An event about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How much it matters.
    pub severity: Severity,
    /// What happened, in one word.
    pub reason: String,
    /// What happened, in a sentence.
    pub message: String,
}

/// The longest message that the API server takes.
const LONGEST: usize = 1024;

impl Event {
    /// The object. Events about nodes live in the namespace `default` and name the node as its id, as the kubelet's own do: there
    /// `kubectl describe node` looks for them.
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
    fn a_long_message_is_cut_between_letters() {
        let event = Event { severity: Severity::Warning, reason: "R".to_owned(), message: "ä".repeat(600) };
        let message = event.object("n", "")["message"].as_str().expect("text").to_owned();
        assert_eq!(message.len(), 1024);
    }
}
