//! Per-node read limits: a `ClusterRole` and a `ClusterRoleBinding` let each node read its own NodeState, and no other.
//!
//! RBAC cannot express "the object with the name of the user", so each node needs its own pair. The operator holds what it grants, and
//! therefore needs neither `escalate` nor `bind`. The NodeState owns both objects: they are garbage-collected with it. They never change, so
//! the operator only creates what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kiln_fleet_api::NodeState;
use kiln_kubernetes::Error;
use kube::Resource as _;

use super::session::PARALLEL;
use super::store::{Snapshot, Stored};
use super::writes::Shared;

/// The label of the objects.
pub(super) const LABEL: &str = "node.kiln.dev/node-reader";
/// The group of roles and users.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The requests of kilnd: both select the object by its name, which RBAC compares with `resourceNames`.
const VERBS: [&str; 2] = ["list", "watch"];
/// Nodes of one pass. Where the option is new, thousands of nodes need roles, and rollouts continue meanwhile.
const NODES_PER_PASS: usize = 100;

impl Stored for ClusterRole {
    /// Only the existence of the object counts.
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.rules = None;
    }

    fn is_equivalent(&self, _other: &Self) -> bool {
        true
    }
}

impl Stored for ClusterRoleBinding {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.subjects = None;
    }

    fn is_equivalent(&self, _other: &Self) -> bool {
        true
    }
}

impl Shared {
    /// Creates the missing roles and bindings. A binding is created after its role, because the API server checks what it grants.
    pub(super) async fn grant_reads(&self, states: &Snapshot<NodeState>) -> Result<(), Error> {
        let (roles, bindings) = (self.stores.roles.snapshot(), self.stores.bindings.snapshot());
        let grants = missing(states, &roles, &bindings).into_iter().map(|(role, binding)| async move {
            if let Some(role) = role {
                self.create(&self.stores.roles, &role).await?;
            }
            match binding {
                Some(binding) => self.create(&self.stores.bindings, &binding).await,
                None => Ok(()),
            }
        });
        let grants: Vec<_> = grants.collect();
        let results: Vec<Result<(), Error>> = stream::iter(grants).buffer_unordered(PARALLEL).collect().await;
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }
}

/// The objects to create: those of some nodes that lack one or both.
fn missing(
    states: &Snapshot<NodeState>,
    roles: &Snapshot<ClusterRole>,
    bindings: &Snapshot<ClusterRoleBinding>,
) -> Vec<(Option<ClusterRole>, Option<ClusterRoleBinding>)> {
    let of_node = |(node, state): (&String, &Arc<NodeState>)| {
        let name = format!("kiln-node:{node}");
        let (has_role, has_binding) = (roles.contains_key(&name), bindings.contains_key(&name));
        if (has_role && has_binding) || state.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let metadata = metadata(&name, state)?;
        let binding = (!has_binding).then(|| binding(node, metadata.clone()));
        Some(((!has_role).then(|| role(node, metadata)), binding))
    };
    states.iter().filter_map(of_node).take(NODES_PER_PASS).collect()
}

/// The same for the role and the binding of a node.
fn metadata(name: &str, state: &NodeState) -> Option<ObjectMeta> {
    let owner = OwnerReference {
        api_version: NodeState::api_version(&()).into_owned(),
        kind: NodeState::kind(&()).into_owned(),
        name: state.metadata.name.clone()?,
        uid: state.metadata.uid.clone()?,
        ..OwnerReference::default()
    };
    Some(ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(LABEL.to_owned(), "true".to_owned())])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    })
}

fn role(node: &str, metadata: ObjectMeta) -> ClusterRole {
    let rule = PolicyRule {
        api_groups: Some(vec![NodeState::group(&()).into_owned()]),
        resources: Some(vec![NodeState::plural(&()).into_owned()]),
        resource_names: Some(vec![node.to_owned()]),
        verbs: VERBS.map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    };
    ClusterRole { metadata, rules: Some(vec![rule]), ..ClusterRole::default() }
}

fn binding(node: &str, metadata: ObjectMeta) -> ClusterRoleBinding {
    let role_ref = RoleRef {
        api_group: RBAC.to_owned(),
        kind: "ClusterRole".to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    let user = Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "User".to_owned(),
        name: format!("system:node:{node}"),
        ..Subject::default()
    };
    ClusterRoleBinding { metadata, role_ref, subjects: Some(vec![user]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(names: impl IntoIterator<Item = String>) -> Snapshot<NodeState> {
        let state = |name: String| {
            let mut state = NodeState::default();
            state.metadata.name = Some(name.clone());
            state.metadata.uid = Some(format!("uid of {name}"));
            (name, Arc::new(state))
        };
        names.into_iter().map(state).collect()
    }

    #[test]
    fn only_what_is_missing_is_created_and_a_leaving_node_gets_nothing() {
        let mut states = states(["a", "b", "c", "leaving"].map(str::to_owned));
        let mut leaving = (*states["leaving"]).clone();
        leaving.metadata.deletion_timestamp = serde_json::from_value("2026-01-01T00:00:00Z".into()).unwrap();
        states.insert("leaving".to_owned(), Arc::new(leaving));
        let role = |name: &str| (name.to_owned(), Arc::new(ClusterRole::default()));
        let roles = Snapshot::from([role("kiln-node:a"), role("kiln-node:b")]);
        let bindings = Snapshot::from([("kiln-node:a".to_owned(), Arc::new(ClusterRoleBinding::default()))]);
        let found = missing(&states, &roles, &bindings);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].0.is_none(), "b has its role");
        let binding = found[0].1.as_ref().unwrap();
        assert_eq!(
            (binding.role_ref.name.as_str(), &binding.metadata.name),
            ("kiln-node:b", &Some("kiln-node:b".to_owned()))
        );
        assert_eq!(binding.subjects.as_ref().unwrap()[0].name, "system:node:b");
        let role = found[1].0.as_ref().unwrap();
        let granted = &role.rules.as_ref().unwrap()[0];
        assert_eq!((&granted.resource_names, granted.verbs.len()), (&Some(vec!["c".to_owned()]), 2));
        assert_eq!(role.metadata.owner_references.as_ref().unwrap()[0].uid, "uid of c");
    }

    #[test]
    fn roles_of_a_large_fleet_are_created_in_several_passes() {
        let states = states((0..=NODES_PER_PASS).map(|number| format!("node-{number}")));
        assert_eq!(missing(&states, &Snapshot::new(), &Snapshot::new()).len(), NODES_PER_PASS);
    }
}
