//! Types that several Karpenter objects use.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Object metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Status condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
}

/// A taint; its effect is not restricted to known values when it is deserialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Formats the taint like kubelet's `--register-with-taints`: `key=value:Effect` or `key:Effect`.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

/// A text that is not a taint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid taint `{0}`; expected `key=value:Effect` or `key:Effect` with `NoSchedule`, `PreferNoSchedule` or `NoExecute`"
)]
pub struct BadTaint(pub String);

impl FromStr for Taint {
    type Err = BadTaint;

    fn from_str(text: &str) -> Result<Self, BadTaint> {
        let bad = || BadTaint(text.to_owned());
        let (left, effect) = text.rsplit_once(':').ok_or_else(bad)?;
        let (key, value) = left.split_once('=').unwrap_or((left, ""));
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(bad());
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    }
}

/// A requirement on the labels of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`.
    pub operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Minimum number of values that must be possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Requirement {
    /// Returns the value if the requirement allows exactly one.
    pub fn single(&self) -> Option<&str> {
        match (self.operator.as_str(), &self.values[..]) {
            ("In", [only]) => Some(only),
            _ => None,
        }
    }
}

/// Reference to a node class.
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
    fn taints_survive_a_round_trip() {
        for text in ["karpenter.sh/unregistered:NoExecute", "dedicated=gpu:NoSchedule"] {
            assert_eq!(text.parse::<Taint>().unwrap().to_string(), text);
        }
        for text in ["", "a", "a=b", ":NoSchedule", "a:Sometimes"] {
            assert_eq!(text.parse::<Taint>(), Err(BadTaint(text.to_owned())));
        }
    }

    #[test]
    fn single_returns_the_only_allowed_value() {
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
