//! What all objects share.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An object's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A condition of an object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
}

/// A requirement on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// How many of them must be possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Requirement {
    /// The only value that it admits.
    pub fn single(&self) -> Option<&str> {
        match (self.operator.as_str(), &self.values[..]) {
            ("In", [only]) => Some(only),
            _ => None,
        }
    }
}

/// A reference to a class of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClassRef {
    /// `karpenter.azure.com`.
    pub group: String,
    /// `AKSNodeClass`.
    pub kind: String,
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_requirement_with_one_value_is_settled() {
        let requirement = |operator: &str, values: &[&str]| Requirement {
            operator: operator.to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
            ..Default::default()
        };
        assert_eq!(requirement("In", &["a"]).single(), Some("a"));
        assert_eq!(requirement("In", &["a", "b"]).single(), None);
        assert_eq!(requirement("NotIn", &["a"]).single(), None);
    }
}
