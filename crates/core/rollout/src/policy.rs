//! The rules of a rollout, parsed.

use jiff::SignedDuration;
use kiln_fleet_api::{Amount, Approval, Budget, Domains, FailureLimits, GatePolicy, PrometheusGate, RolloutPolicySpec};

use crate::gate::{NodeGate, Threshold};
use crate::window::Windows;

/// Eviction of a pod takes at most its grace period, usually 30 seconds. Longer than a quarter of an hour, a PodDisruptionBudget blocks it.
const DRAIN_TIMEOUT: SignedDuration = SignedDuration::from_mins(15);
/// A reboot of a large machine takes up to ten minutes, and its DaemonSets pull images after it.
const NODE_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);

/// An invalid field of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("`{field}`: invalid duration `{text}`; expected a duration such as `90s`, `10m` or `1h30m`")]
    Duration { field: String, text: String },
    #[error("`{field}`: invalid label `{text}`; expected `key=value`")]
    Label { field: String, text: String },
    #[error("`{field}`: invalid days `{text}`; expected a day such as `Mon` or a range such as `Mon-Thu`")]
    Days { field: String, text: String },
    #[error("`{field}`: invalid time `{text}`; expected a time such as `22:00`")]
    Time { field: String, text: String },
    #[error("`{field}`: unknown time zone `{text}`; expected a name such as `Europe/Berlin`")]
    TimeZone { field: String, text: String },
    #[error("`{field}`: the window is empty; a whole day is from `00:00` to `24:00`")]
    EmptyWindow { field: String },
    #[error("`{field}`: invalid comparison `{text}`; expected an operator and a number, such as `> 0.02`")]
    Comparison { field: String, text: String },
    #[error(
        "`{field}`: expected exactly one of `nodeReadyFor`, `daemonSetsReady`, `conditionsUnchanged` and `prometheus`"
    )]
    Gate { field: String },
}

/// A parsed RolloutPolicy.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) first_nodes: usize,
    /// Labels of the nodes that come first.
    pub(crate) prefer: Vec<(String, String)>,
    pub(crate) factor: usize,
    pub(crate) max_percent: u32,
    /// Between the first wave and the second.
    pub(crate) after_first: Between,
    /// Between later waves.
    pub(crate) after_then: Between,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) windows: Windows,
    pub(crate) gates: Vec<NodeGate>,
    pub(crate) queries: Vec<Query>,
    pub(crate) failure: FailureLimits,
    pub(crate) drain_timeout: SignedDuration,
    pub(crate) node_timeout: SignedDuration,
}

/// The conditions between two waves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    pub(crate) soak: SignedDuration,
    pub(crate) approve: Approval,
}

/// A query to a Prometheus server, run once per wave after its soak time.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub url: String,
    pub query: String,
    pub(crate) fail: Threshold,
}

impl Default for Policy {
    fn default() -> Self {
        Self::parse(&RolloutPolicySpec::default()).expect("the defaults are valid")
    }
}

impl Policy {
    /// Parses durations, labels, windows and comparisons.
    pub fn parse(spec: &RolloutPolicySpec) -> Result<Self, PolicyError> {
        let (first, then) = (&spec.waves.first, &spec.waves.then);
        let mut policy = Self {
            first_nodes: first.nodes.max(1) as usize,
            prefer: Vec::new(),
            factor: then.factor.max(1) as usize,
            max_percent: then.max_percent,
            after_first: Between {
                soak: duration("waves.first.soak", first.soak.as_deref(), SignedDuration::ZERO)?,
                approve: first.approve,
            },
            after_then: Between {
                soak: duration("waves.then.soak", then.soak.as_deref(), SignedDuration::ZERO)?,
                approve: then.approve,
            },
            budgets: spec.budgets.clone(),
            windows: Windows::parse(&spec.windows)?,
            gates: Vec::new(),
            queries: Vec::new(),
            failure: spec.failure.clone(),
            drain_timeout: duration("drainTimeout", spec.drain_timeout.as_deref(), DRAIN_TIMEOUT)?,
            node_timeout: duration("nodeTimeout", spec.node_timeout.as_deref(), NODE_TIMEOUT)?,
        };
        for (index, text) in first.prefer.iter().enumerate() {
            let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
                PolicyError::Label { field: format!("waves.first.prefer[{index}]"), text: text.clone() }
            })?;
            policy.prefer.push((key.to_owned(), value.to_owned()));
        }
        if policy.budgets.is_empty() {
            policy.budgets.push(Budget {
                max_unavailable: Amount::Percent(10),
                effects: Vec::new(),
                topology_key: None,
                domains: Domains::All,
            });
        }
        for (index, gate) in spec.gates.iter().enumerate() {
            policy.add_gate(&format!("gates[{index}]"), gate)?;
        }
        Ok(policy)
    }

    fn add_gate(&mut self, field: &str, gate: &GatePolicy) -> Result<(), PolicyError> {
        match gate {
            GatePolicy {
                node_ready_for: Some(text),
                daemon_sets_ready: None,
                conditions_unchanged: None,
                prometheus: None,
            } => {
                let time = duration(&format!("{field}.nodeReadyFor"), Some(text), SignedDuration::ZERO)?;
                self.gates.push(NodeGate::ReadyFor(time));
            }
            GatePolicy {
                node_ready_for: None,
                daemon_sets_ready: Some(wanted),
                conditions_unchanged: None,
                prometheus: None,
            } => self.gates.extend(wanted.then_some(NodeGate::DaemonSetsReady)),
            GatePolicy {
                node_ready_for: None,
                daemon_sets_ready: None,
                conditions_unchanged: Some(names),
                prometheus: None,
            } => self.gates.push(NodeGate::ConditionsUnchanged(names.clone())),
            GatePolicy {
                node_ready_for: None,
                daemon_sets_ready: None,
                conditions_unchanged: None,
                prometheus: Some(PrometheusGate { url, query, fail }),
            } => {
                let fail = fail.parse().map_err(|()| PolicyError::Comparison {
                    field: format!("{field}.prometheus.fail"),
                    text: fail.clone(),
                })?;
                self.queries.push(Query { url: url.clone(), query: query.clone(), fail });
            }
            _ => return Err(PolicyError::Gate { field: field.to_owned() }),
        }
        Ok(())
    }

    /// The queries of its Prometheus gates.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// The conditions between a wave, counted from 1, and the next one.
    pub(crate) fn after(&self, wave: usize) -> Between {
        if wave <= 1 { self.after_first } else { self.after_then }
    }
}

fn duration(field: &str, text: Option<&str>, default: SignedDuration) -> Result<SignedDuration, PolicyError> {
    let Some(text) = text else { return Ok(default) };
    match text.parse::<SignedDuration>() {
        Ok(time) if !time.is_negative() => Ok(time),
        _ => Err(PolicyError::Duration { field: field.to_owned(), text: text.to_owned() }),
    }
}
