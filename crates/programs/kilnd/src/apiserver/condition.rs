//! A condition of a node.

use serde::{Deserialize, Serialize};

use crate::apiserver::node::Node;

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    #[serde(other)]
    Unknown,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    /// A CamelCase word.
    pub reason: String,
    pub message: String,
    pub last_heartbeat_time: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<String>,
}

impl Condition {
    /// A condition without times.
    pub fn new(kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Self {
        let text = str::to_owned;
        Self { kind: text(kind), status, reason: text(reason), message: text(message), ..Self::default() }
    }

    /// Whether the node has this condition already.
    pub fn is_set_on(&self, node: &Node) -> bool {
        node.condition(&self.kind).is_some_and(|current| {
            (current.status, &current.reason, &current.message) == (self.status, &self.reason, &self.message)
        })
    }

    /// The condition with its times. The transition time is now, unless the node has the same status already.
    pub(crate) fn at(&self, now: &str, node: &Node) -> Self {
        let now = Some(now.to_owned());
        let before = node.condition(&self.kind).filter(|current| current.status == self.status);
        let since = before.and_then(|current| current.last_transition_time.clone());
        Self { last_heartbeat_time: now.clone(), last_transition_time: since.or(now), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let good = Condition::new("KilnConfigured", ConditionStatus::True, "Applied", "generation 1");
        let mut node = Node::default();
        let first = good.at("100", &node);
        assert_eq!(first.last_transition_time.as_deref(), Some("100"));
        node.conditions.push(first.clone());
        assert!(good.is_set_on(&node));
        let newer = Condition::new("KilnConfigured", ConditionStatus::True, "Applied", "generation 2");
        assert!(!newer.is_set_on(&node));
        assert_eq!(newer.at("200", &node).last_transition_time, first.last_transition_time);
        assert_eq!(newer.at("200", &node).last_heartbeat_time.as_deref(), Some("200"));
        let bad = Condition::new("KilnConfigured", ConditionStatus::False, "Reverted", "generation 3");
        assert_eq!(bad.at("300", &node).last_transition_time.as_deref(), Some("300"));
    }

    #[test]
    fn unexpected_status_is_unknown() {
        let read: Condition = serde_json::from_str(r#"{"type":"x","status":"Maybe"}"#).expect("read");
        assert_eq!(read.status, ConditionStatus::Unknown);
    }
}
