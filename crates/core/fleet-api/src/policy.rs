//! The rules of a rollout: waves, budgets, windows, gates and failure limits.

use std::fmt;
use std::str::FromStr;

use kiln_node_config::Effect;
use kiln_node_config::node_state::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Rules that several rollouts share. Each field has a safe default: one node, then three times as many per wave up to 30 %, at most 10 % of
/// the nodes unavailable, stop after one failure.
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "node.kiln.dev",
    version = "v1alpha1",
    kind = "RolloutPolicy",
    plural = "rolloutpolicies",
    shortname = "krp",
    status = "RolloutPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutPolicySpec {
    pub waves: Waves,
    /// Limits of unavailable nodes. All of them apply. Without any, at most 10 % of the nodes are unavailable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub budgets: Vec<Budget>,
    /// When nodes may be started. With any window, the time outside all windows is closed for its effects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub windows: Vec<Window>,
    /// What a node has to show before it counts as updated. Without any, the node must be Ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub gates: Vec<GatePolicy>,
    pub failure: FailureLimits,
    /// How long the drain of a node may take, such as `15m`. After it, the node is skipped, uncordoned and counted as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<String>,
    /// How long a node may take from its assignment until it is updated, such as `30m`, without the time that it waits for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_timeout: Option<String>,
}

/// What uses a policy.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutPolicyStatus {
    /// `metadata.generation` that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names of the open Rollouts that use it.
    pub used_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How the nodes are divided.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Waves {
    pub first: FirstWave,
    pub then: ThenWaves,
}

/// The first wave.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FirstWave {
    /// Number of nodes.
    #[schemars(range(min = 1))]
    pub nodes: u32,
    /// Labels as `key=value`. Nodes with more of them come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<String>,
    /// How long the wave is watched after its last node before the next wave starts, such as `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<String>,
    /// Whether a person approves the second wave.
    pub approve: Approval,
}

impl Default for FirstWave {
    fn default() -> Self {
        Self { nodes: 1, prefer: Vec::new(), soak: None, approve: Approval::Automatic }
    }
}

/// The waves after the first.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThenWaves {
    /// Each wave has this many times the nodes of the wave before it.
    #[schemars(range(min = 1, max = 100))]
    pub factor: u32,
    /// The largest wave, in percent of all nodes of the rollout; at least one node.
    #[schemars(range(min = 1, max = 100))]
    pub max_percent: u32,
    /// How long each wave is watched after its last node before the next wave starts, such as `10m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<String>,
    /// Whether a person approves each further wave.
    pub approve: Approval,
}

impl Default for ThenWaves {
    fn default() -> Self {
        Self { factor: 3, max_percent: 30, soak: None, approve: Approval::Automatic }
    }
}

/// Who starts the wave after this one.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Approval {
    #[default]
    Automatic,
    /// A person, with `kiln rollout approve` or by setting `spec.approvedWave`.
    Manual,
}

/// A limit of unavailable nodes. A node that is not Ready or is cordoned counts, for whatever reason.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// A number, or a percentage of the nodes of the rollout (of a domain, with `topologyKey`), rounded down, but at least one.
    pub max_unavailable: Amount,
    /// Counts only nodes whose change has one of these effects, and limits only their start. Empty: all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The label that divides nodes into domains, such as `topology.kubernetes.io/zone`. The limit then applies to each domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_key: Option<String>,
    /// Whether nodes of several domains may be unavailable at the same time.
    #[serde(default)]
    pub domains: Domains,
}

/// Domains that a rollout may touch at the same time.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Domains {
    #[default]
    All,
    /// A node is started only while all nodes in flight are in its domain.
    OneAtATime,
}

/// A number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Nodes(u32),
    Percent(u32),
}

impl Amount {
    /// Returns the number of nodes out of `total`. A percentage is rounded down, but is at least one node, or nothing would ever start.
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Nodes(nodes) => nodes as usize,
            Self::Percent(0) => 0,
            Self::Percent(percent) => (total * percent as usize / 100).max(1),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Text that is neither a number nor a percentage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid amount `{0}`; expected a number such as `2` or a percentage such as `10%`")]
pub struct BadAmount(String);

impl FromStr for Amount {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let bad = || BadAmount(text.to_owned());
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent) if percent <= 100 => Ok(Self::Percent(percent)),
                _ => Err(bad()),
            },
            None => text.parse().map(Self::Nodes).map_err(|_| bad()),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(nodes) => serializer.serialize_u32(*nodes),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Number(u32),
            Text(String),
        }
        match Text::deserialize(deserializer)? {
            Text::Number(number) => Ok(Self::Nodes(number)),
            Text::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true, "minimum": 0, "maximum": 999_999, "pattern": "^([0-9]|[1-9][0-9]|100)%$|^[0-9]{1,6}$"})
    }
}

/// A time in which nodes may be started.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Days on which the window begins: `Mon` to `Sun`, or ranges such as `Mon-Thu`. Empty: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?$")))]
    pub days: Vec<String>,
    /// Begin as `HH:MM`.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// End as `HH:MM`. An end before the begin is on the next day.
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$"))]
    pub to: String,
    /// Name in the time zone database, such as `Europe/Berlin`; `UTC` if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time_zone: String,
    /// Effects that need this window. Empty: `drain`, `reboot` and `replace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
}

/// What a node has to show. Exactly one field is set.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(crates(kube_core = "::kube_core"), validation = Rule::new("[has(self.nodeReadyFor), has(self.daemonSetsReady), has(self.conditionsUnchanged), has(self.prometheus)].exists_one(x, x)").message("a gate has exactly one of `nodeReadyFor`, `daemonSetsReady`, `conditionsUnchanged`, `prometheus`"))]
pub struct GatePolicy {
    /// The node has been Ready for this long, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ready_for: Option<String>,
    /// All pods of DaemonSets on the node are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_sets_ready: Option<bool>,
    /// These conditions of the Node have the status that they had before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions_unchanged: Option<Vec<String>>,
    /// A query gives a good value after the wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusGate>,
}

/// A query to a Prometheus server, evaluated once per wave at the end of its soak time.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusGate {
    /// Address of the server, such as `http://prometheus.monitoring:9090`.
    pub url: String,
    /// The query. Its first sample counts.
    pub query: String,
    /// When the gate fails: `>`, `>=`, `<` or `<=` and a number, such as `> 0.02`.
    #[schemars(regex(pattern = r"^(>|>=|<|<=)\s*-?[0-9]+(\.[0-9]+)?$"))]
    pub fail: String,
}

/// When a rollout stops.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureLimits {
    /// The rollout stops when this many nodes have failed.
    #[schemars(range(min = 1))]
    pub nodes: u32,
    /// The rollout stops when this many nodes of the first wave have failed.
    #[schemars(range(min = 1))]
    pub in_first_wave: u32,
    /// The rollout stops when this percentage of its nodes has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u32>,
}

impl Default for FailureLimits {
    fn default() -> Self {
        Self { nodes: 1, in_first_wave: 1, percent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_is_a_number_or_a_percentage() {
        for (text, amount) in [("3", Amount::Nodes(3)), ("10%", Amount::Percent(10))] {
            assert_eq!(text.parse(), Ok(amount));
            assert_eq!(amount.to_string(), text);
        }
        for bad in ["", "%", "101%", "-1", "1.5", "ten"] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn percentage_is_rounded_down_to_at_least_one_node() {
        let counts = [0, 1, 9, 10, 25].map(|total| Amount::Percent(10).of(total));
        assert_eq!(counts, [1, 1, 1, 1, 2]);
        assert_eq!(Amount::Percent(0).of(50), 0);
    }
}
