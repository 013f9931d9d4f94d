//! A Node object, as far as its own node looks at it.

use std::collections::BTreeMap;

use kiln_types::Taint;
use serde::Deserialize;

use crate::condition::Condition;

/// A Node object, as far as its own node looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Its id, which differs for a namesake that came later.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Whether pods are kept away.
    pub unschedulable: bool,
    pub conditions: Vec<Condition>,
}

impl Node {
    /// Reads an object.
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

    /// Whether the kubelet says that pods can run here.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status == crate::condition::Truth::True)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_with_and_without_its_optional_halves() {
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
