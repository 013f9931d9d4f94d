//! The Node object, as far as kilnd reads it.

use std::collections::BTreeMap;

use kiln_types::Taint;
use serde::Deserialize;

use crate::apiserver::condition::{Condition, ConditionStatus};

/// The Node object, as far as kilnd reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Differs for a later Node with the same name.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub conditions: Vec<Condition>,
}

impl Node {
    /// Parses a Node object.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
            #[serde(default)]
            uid: String,
            #[serde(default)]
            labels: BTreeMap<String, String>,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            taints: Vec<Taint>,
            unschedulable: bool,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            conditions: Vec<Condition>,
        }
        let Object { metadata, spec, status } = serde_json::from_slice(json)?;
        Ok(Self {
            name: metadata.name,
            uid: metadata.uid,
            labels: metadata.labels,
            annotations: metadata.annotations,
            taints: spec.taints,
            unschedulable: spec.unschedulable,
            conditions: status.conditions,
        })
    }

    /// A condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status == ConditionStatus::True)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_parsed_with_and_without_optional_fields() {
        let bare = Node::parse(br#"{"metadata":{"name":"n"}}"#).expect("read");
        assert!(!bare.is_ready() && bare.taints.is_empty());
        let whole = br#"{"metadata":{"name":"n","uid":"u","labels":{"a":"b"},"annotations":{"c":"d"}},
            "spec":{"taints":[{"key":"k","effect":"NoSchedule","timeAdded":"x"}],"unschedulable":true},
            "status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
        let node = Node::parse(whole).expect("read");
        assert!(node.is_ready() && node.unschedulable);
        assert_eq!(node.taints[0].effect, "NoSchedule");
        assert_eq!((node.labels["a"].as_str(), node.annotations["c"].as_str()), ("b", "d"));
        assert!(Node::parse(b"{}").is_err());
    }
}
