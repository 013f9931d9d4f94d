//! Taints of a node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::BadName;

/// A taint of a node, as the API server and Karpenter write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    /// Empty if the taint has no value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// As in the kubelet's flag: `key=value:Effect`, or `key:Effect`.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        write!(f, ":{}", self.effect)
    }
}

impl FromStr for Taint {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName {
            noun: "taint",
            input: text.to_owned(),
            rule: "`key=value:Effect` or `key:Effect`, with effect `NoSchedule`, `PreferNoSchedule` or `NoExecute`",
        };
        let (left, effect) = text.rsplit_once(':').ok_or_else(bad)?;
        let (key, value) = left.split_once('=').unwrap_or((left, ""));
        if key.is_empty() || !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            return Err(bad());
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taint_round_trips_through_text() {
        for text in ["karpenter.sh/unregistered:NoExecute", "dedicated=gpu:NoSchedule"] {
            assert_eq!(text.parse::<Taint>().unwrap().to_string(), text);
        }
        for text in ["", "a", "a=b", ":NoSchedule", "a:Sometimes"] {
            assert_eq!(text.parse::<Taint>().unwrap_err().input, text);
        }
    }
}
