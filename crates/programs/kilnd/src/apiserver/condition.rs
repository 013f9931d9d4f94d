//! A condition of a node.

use serde::{Deserialize, Serialize};

use crate::apiserver::node::Node;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truth {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
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
    /// Whether it holds.
    pub status: Truth,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When somebody last looked.
    pub last_heartbeat_time: Option<String>,
    /// When it last changed.
    pub last_transition_time: Option<String>,
}

impl Condition {
    /// A condition.
    pub fn new(kind: &str, status: Truth, reason: &str, message: &str) -> Self {
        let text = str::to_owned;
        Self { kind: text(kind), status, reason: text(reason), message: text(message), ..Self::default() }
    }

    /// Whether a node says the same already.
    pub fn is_said_by(&self, node: &Node) -> bool {
        node.condition(&self.kind).is_some_and(|said| {
            (said.status, &said.reason, &said.message) == (self.status, &self.reason, &self.message)
        })
    }

    /// The same at a time. It changed then unless the node says the same status already.
    pub(crate) fn at(&self, now: &str, node: &Node) -> Self {
        let now = Some(now.to_owned());
        let before = node.condition(&self.kind).filter(|said| said.status == self.status);
        let since = before.and_then(|said| said.last_transition_time.clone());
        Self { last_heartbeat_time: now.clone(), last_transition_time: since.or(now), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_the_time_of_its_last_change_while_its_status_stays() {
        let good = Condition::new("KilnConfigured", Truth::True, "Applied", "generation 1");
        let mut node = Node::default();
        let first = good.at("100", &node);
        assert_eq!(first.last_transition_time.as_deref(), Some("100"));
        node.conditions.push(first.clone());
        assert!(good.is_said_by(&node));
        let newer = Condition::new("KilnConfigured", Truth::True, "Applied", "generation 2");
        assert!(!newer.is_said_by(&node));
        assert_eq!(newer.at("200", &node).last_transition_time, first.last_transition_time);
        assert_eq!(newer.at("200", &node).last_heartbeat_time.as_deref(), Some("200"));
        let bad = Condition::new("KilnConfigured", Truth::False, "CameBack", "generation 3");
        assert_eq!(bad.at("300", &node).last_transition_time.as_deref(), Some("300"));
    }

    #[test]
    fn a_status_that_nobody_knows_is_unknown() {
        let read: Condition = serde_json::from_str(r#"{"type":"x","status":"Maybe"}"#).expect("read");
        assert_eq!(read.status, Truth::Unknown);
    }
}
