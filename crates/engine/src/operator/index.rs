//! Which node belongs to which pool, and who holds it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{Freeze, NodeState, Pool, Rollout};
use kiln_kubernetes::{HOLD_ANNOTATION, NodeHold, Owner};

use super::store::Snapshot;

/// Prefix of the owner in the holds of rollouts.
const OWNER: &str = "rollout/";

/// The pools of all nodes.
#[derive(Debug, Default)]
pub(super) struct Index {
    pool_of: BTreeMap<String, String>,
    nodes_of: BTreeMap<String, Vec<String>>,
    /// By pool: nodes that match it and belong to an earlier one, with the name of that pool.
    overlaps: BTreeMap<String, Vec<(String, String)>>,
}

impl Index {
    /// A node that several pools select belongs to the first one by name.
    pub(super) fn new(pools: &Snapshot<Pool>, nodes: &Snapshot<Node>) -> Self {
        let mut index = Self::default();
        for (name, node) in nodes {
            let empty = BTreeMap::new();
            let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
            let selects = |pool: &Pool| {
                let selector = &pool.spec.node_selector;
                !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            };
            let mut matching = pools.iter().filter(|(_, pool)| selects(pool)).map(|(name, _)| name);
            let Some(first) = matching.next() else { continue };
            index.pool_of.insert(name.clone(), first.clone());
            index.nodes_of.entry(first.clone()).or_default().push(name.clone());
            for other in matching {
                index.overlaps.entry(other.clone()).or_default().push((name.clone(), first.clone()));
            }
        }
        index
    }

    /// All nodes that belong to a pool, with their pool.
    pub(super) fn pooled(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pool_of.iter().map(|(node, pool)| (node.as_str(), pool.as_str()))
    }

    /// The nodes of a pool.
    pub(super) fn nodes_of(&self, pool: &str) -> &[String] {
        self.nodes_of.get(pool).map_or(&[], Vec::as_slice)
    }

    /// The nodes that a pool selects and that belong to another one.
    pub(super) fn overlaps(&self, pool: &str) -> &[(String, String)] {
        self.overlaps.get(pool).map_or(&[], Vec::as_slice)
    }
}

/// The owner of the holds of a rollout: its name, for people, and its uid.
pub(super) fn owner_of(rollout: &Rollout) -> Option<Owner> {
    let (name, uid) = (rollout.metadata.name.as_deref()?, rollout.metadata.uid.as_deref()?);
    // An owner has at most 128 characters.
    let name: String = name.chars().take(80).collect();
    format!("{OWNER}{name}/{uid}").parse().ok()
}

/// The uid of the rollout that an owner is.
pub(super) fn rollout_uid(owner: &Owner) -> Option<&str> {
    owner.as_str().strip_prefix(OWNER)?.rsplit_once('/').map(|(_, uid)| uid)
}

/// The hold of a node, if it has a valid one.
pub(super) fn hold(node: &Node) -> Option<NodeHold> {
    let text = node.metadata.annotations.as_ref()?.get(HOLD_ANNOTATION)?;
    NodeHold::parse(text).ok()
}

/// Whether the NodeState belongs to this Node, and not to an earlier one with the same name.
pub(super) fn is_owned(state: &NodeState, node: &Node) -> bool {
    let mut owners = state.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Node");
    owners.next().is_none_or(|owner| Some(&owner.uid) == node.metadata.uid.as_ref())
}

/// The NodeState of a Node.
pub(super) fn state_of<'a>(states: &'a Snapshot<NodeState>, node: &Node) -> Option<&'a NodeState> {
    let state = states.get(node.metadata.name.as_deref()?)?;
    is_owned(state, node).then_some(state)
}

/// Whether a Freeze is in force for a pool. A Freeze whose `until` cannot be read does not end.
pub(super) fn is_frozen(freezes: &Snapshot<Freeze>, pool: &str, now: Timestamp) -> bool {
    freezes.values().any(|freeze| {
        let is_affected = freeze.spec.pools.is_empty() || freeze.spec.pools.iter().any(|name| name == pool);
        is_affected && until(freeze).is_none_or(|until| until > now)
    })
}

/// When a Freeze ends by itself.
pub(super) fn until(freeze: &Freeze) -> Option<Timestamp> {
    freeze.spec.until.as_deref().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_fleet_api::PoolSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn node_belongs_to_the_first_pool_that_selects_it() {
        let pool = |name: &str, labels: &[(&str, &str)]| {
            let node_selector = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            (name.to_owned(), Arc::new(Pool::new(name, PoolSpec { node_selector, ..PoolSpec::default() })))
        };
        let node = |name: &str, labels: serde_json::Value| {
            let node = json!({"metadata": {"name": name, "labels": labels}});
            (name.to_owned(), Arc::new(serde_json::from_value(node).unwrap()))
        };
        let pools = Snapshot::from([pool("a", &[("tier", "web"), ("zone", "1")]), pool("b", &[("tier", "web")])]);
        let nodes = Snapshot::from([
            node("both", json!({"tier": "web", "zone": "1"})),
            node("one", json!({"tier": "web"})),
            node("none", json!({"tier": "db"})),
        ]);
        let index = Index::new(&pools, &nodes);
        assert_eq!(index.pooled().collect::<Vec<_>>(), [("both", "a"), ("one", "b")]);
        assert_eq!(index.overlaps("b"), [("both".to_owned(), "a".to_owned())]);
        assert_eq!(index.nodes_of("b"), ["one".to_owned()]);
    }

    #[test]
    fn owner_of_a_hold_leads_to_the_rollout() {
        let mut rollout = Rollout::new(&"x".repeat(253), kiln_fleet_api::RolloutSpec::default());
        rollout.metadata.uid = Some("9b0f5c2e-7e0c-4e5c-9f0a-000000000000".to_owned());
        let owner = owner_of(&rollout).unwrap();
        assert_eq!(rollout_uid(&owner), rollout.metadata.uid.as_deref());
        assert_eq!(rollout_uid(&"run-1".parse().unwrap()), None);
    }
}
