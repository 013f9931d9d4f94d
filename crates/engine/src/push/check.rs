//! Reasons to refuse a push before anything is written.

use std::collections::BTreeMap;

use kiln_fleet_api::{Approval, GatePolicy, RolloutPolicySpec};
use kiln_node_config::{Effect, NodeConfig};
use kiln_node_plan::{Desired, Observed, Plan, Request};
use kiln_rollout::PolicyError;
use kiln_types::Node;

use super::observe::in_force;

/// Why nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushRefusal {
    #[error(
        "generation {generation} is not higher than generation {highest}, which is in force on node `{node}`; nodes would ignore the document"
    )]
    Generation { generation: u64, highest: u64, node: String },
    #[error("the change needs a {effect} of the nodes ({fields}), and a push only changes nodes in place")]
    NeedsConsent { effect: Effect, fields: String },
    #[error("the document has `spec.update.paused`, so no node would apply it")]
    Paused,
    #[error("node `{node}` may not set {what} itself")]
    ClusterFields { node: String, what: String },
    #[error("the user data of {0} is not a NodeConfig, and a push would overwrite it")]
    OtherUserData(String),
    #[error("node `{0}` reports no document in force")]
    NoReport(String),
    #[error("the operator assigns documents to node `{0}`, which therefore ignores user data")]
    Assigned(String),
    #[error("pool `{0}` has no nodes")]
    NoNodes(String),
    #[error("a push of generation {generation} (`{digest}`) to this pool was interrupted")]
    Interrupted { generation: u64, digest: String, place: String },
    #[error("the document is {0} bytes long; user data has at most 65536 bytes")]
    TooLong(usize),
    #[error("scale set `{0}` upgrades its instances when its model changes")]
    UpgradePolicy(String),
    #[error("invalid policy: {0}")]
    Policy(#[from] PolicyError),
    #[error("`{0}` of the policy needs the operator")]
    NeedsOperator(&'static str),
    #[error("{0}")]
    Stalled(String),
}

impl PushRefusal {
    /// The command or setting that helps.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Generation { highest, .. } => {
                format!("set `metadata.generation` to {} or more", highest.saturating_add(1))
            }
            Self::NeedsConsent { .. } => {
                "use a Rollout, which drains and reboots nodes: `kiln rollout create`".to_owned()
            }
            Self::Paused => "remove `spec.update.paused`".to_owned(),
            Self::ClusterFields { .. } => "set them on the nodes with `kubectl` first, or use a Rollout".to_owned(),
            Self::OtherUserData(_) => "remove the user data, or deliver the document by a Rollout".to_owned(),
            Self::NoReport(_) => "check that kilnd runs on the node: `systemctl status kiln-watch`".to_owned(),
            Self::Assigned(_) => "use `kiln rollout create`".to_owned(),
            Self::Interrupted { place, .. } => {
                let (namespace, name) = place.split_once('/').unwrap_or(("default", place));
                format!(
                    "push that document again to continue, or forget it with `kubectl delete configmap -n {namespace} {name}`"
                )
            }
            Self::TooLong(_) => "deliver the document by a Rollout".to_owned(),
            Self::UpgradePolicy(_) => {
                "set its upgrade policy to Manual: `az vmss update --set upgradePolicy.mode=Manual`".to_owned()
            }
            Self::NeedsOperator(_) => "use a Rollout, or a policy without it".to_owned(),
            Self::NoNodes(_) | Self::Policy(_) | Self::Stalled(_) => return None,
        })
    }
}

/// The most user data that Azure accepts.
const LIMIT: usize = 64 << 10;

/// Checks the policy and the document alone.
pub(super) fn check_request(policy: &RolloutPolicySpec, text: &str) -> Result<(), PushRefusal> {
    let approvals = [policy.waves.first.approve, policy.waves.then.approve];
    if approvals.contains(&Approval::Manual) {
        return Err(PushRefusal::NeedsOperator("approve: Manual"));
    }
    for gate in &policy.gates {
        match gate {
            GatePolicy { daemon_sets_ready: Some(true), .. } => {
                return Err(PushRefusal::NeedsOperator("daemonSetsReady"));
            }
            GatePolicy { prometheus: Some(_), .. } => return Err(PushRefusal::NeedsOperator("prometheus")),
            _ => {}
        }
    }
    if text.len() > LIMIT { Err(PushRefusal::TooLong(text.len())) } else { Ok(()) }
}

/// The documents that are in the user data of instances, by their digest. Fails if user data is something else.
pub(super) fn documents<'a>(
    user_data: impl IntoIterator<Item = (String, &'a str)>,
) -> Result<BTreeMap<String, NodeConfig>, PushRefusal> {
    let mut documents = BTreeMap::new();
    for (owner, text) in user_data {
        if text.is_empty() {
            continue;
        }
        let config = NodeConfig::parse(text.as_bytes()).map_err(|_| PushRefusal::OtherUserData(owner))?;
        documents.insert(config.hash(), config);
    }
    Ok(documents)
}

/// Checks a document against a node, and returns its effect if the document in force is known.
pub(super) fn check_node(
    node: &Node,
    document: &NodeConfig,
    known: &BTreeMap<String, NodeConfig>,
) -> Result<Option<Effect>, PushRefusal> {
    let Some((number, hash)) = in_force(node) else { return Err(PushRefusal::NoReport(node.name.to_string())) };
    let generation = document.metadata.generation;
    if hash == document.hash() {
        return Ok(Some(Effect::None));
    }
    if number >= generation {
        return Err(PushRefusal::Generation { generation, highest: number, node: node.name.to_string() });
    }
    let Some(before) = known.get(hash) else { return Ok(None) };
    // The effect and the requests depend only on the two documents.
    let plan = Plan::new(Some(before), document, &Desired::default(), &Observed::default());
    if document.spec.update.paused {
        return Err(PushRefusal::Paused);
    }
    if plan.effect >= Effect::Drain {
        let fields = plan.changes.iter().filter(|change| change.effect >= Effect::Drain);
        let fields: Vec<String> = fields.map(|change| format!("`{}`", change.path)).collect();
        return Err(PushRefusal::NeedsConsent { effect: plan.effect, fields: fields.join(", ") });
    }
    if let Some(request) = plan.requests.iter().find(|request| !is_fulfilled(request, node)) {
        return Err(PushRefusal::ClusterFields { node: node.name.to_string(), what: request.to_string() });
    }
    Ok(Some(plan.effect))
}

/// Whether a node can fulfil a request itself, or the Node object shows it already.
fn is_fulfilled(request: &Request, node: &Node) -> bool {
    match request {
        Request::Labels { by_node: true, .. } | Request::Reload | Request::Restart => true,
        Request::Labels { set, remove, .. } => {
            set.iter().all(|(key, value)| node.labels.get(key) == Some(value))
                && remove.iter().all(|key| !node.labels.contains_key(key))
        }
        Request::Taints { set, remove } => {
            let has =
                |key: &str, effect: &str| node.taints.iter().find(|taint| taint.key == key && taint.effect == effect);
            set.iter().all(|taint| has(&taint.key, taint.effect.as_str()).is_some_and(|one| one.value == taint.value))
                && remove
                    .iter()
                    .all(|name| name.rsplit_once(':').is_none_or(|(key, effect)| has(key, effect).is_none()))
        }
        Request::Drain | Request::Reboot | Request::Replace => false,
    }
}

#[cfg(test)]
mod tests;
