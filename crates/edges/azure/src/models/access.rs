//! The caller's permissions, and the resources that a scale set refers to.

use std::collections::BTreeSet;

use kiln_types::{Grant, Linked, Lock};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::load_balancer::balancer_of;
use super::or_default;
use crate::role;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionModel {
    #[serde(default, deserialize_with = "or_default")]
    actions: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    not_actions: Vec<String>,
}

impl PermissionModel {
    pub(crate) fn read(self) -> Grant {
        Grant { actions: self.actions, not_actions: self.not_actions }
    }
}

/// The name of a resource.
#[derive(Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Deserialize)]
pub(crate) struct LockModel {
    id: String,
    name: String,
    #[serde(default)]
    properties: LockProperties,
}

#[derive(Default, Deserialize)]
struct LockProperties {
    level: Option<String>,
}

impl LockModel {
    /// Converts a lock, if it applies to a resource: the id of a lock begins with what is locked.
    pub(crate) fn read(self, resource: &str) -> Option<Lock> {
        let at = self.id.to_ascii_lowercase().rfind("/providers/microsoft.authorization/locks/")?;
        let scope = &self.id[..at];
        let applies =
            format!("{resource}/").to_ascii_lowercase().starts_with(&format!("{scope}/").to_ascii_lowercase());
        applies.then(|| Lock {
            name: self.name,
            level: self.properties.level.unwrap_or_default(),
            scope: scope.to_owned(),
        })
    }
}

/// A scale set, searched for references to other resources wherever they appear in the model.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct References(Map<String, Value>);

impl References {
    /// Returns each resource that a write of the model uses, with the action that the caller needs on it.
    pub(crate) fn linked(&self) -> Vec<Linked> {
        let mut found = BTreeSet::new();
        self.0.iter().for_each(|(key, value)| walk(key, value, &mut found));
        found.into_iter().collect()
    }
}

fn walk(key: &str, value: &Value, found: &mut BTreeSet<Linked>) {
    match value {
        Value::Object(object) => {
            let action = match key {
                "subnet" => Some(role::JOIN_SUBNET),
                "networkSecurityGroup" => Some(role::JOIN_SECURITY_GROUP),
                "loadBalancerBackendAddressPools" => Some(role::JOIN_BACKEND_POOL),
                "applicationSecurityGroups" => Some(role::JOIN_APPLICATION_GROUP),
                _ => None,
            };
            let mut link = |action: &str, id: &str| {
                found.insert(Linked { action: action.to_owned(), resource: id.to_owned() });
            };
            if let (Some(action), Some(id)) = (action, object.get("id").and_then(Value::as_str)) {
                link(action, id);
                if let Some(balancer) = balancer_of(id).filter(|_| action == role::JOIN_BACKEND_POOL) {
                    link(role::READ_LOAD_BALANCER, balancer);
                }
            }
            if key == "userAssignedIdentities" {
                object.keys().for_each(|id| link(role::ASSIGN_IDENTITY, id));
            }
            object.iter().for_each(|(key, value)| walk(key, value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(key, item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn linked_resources_are_found_once_with_their_action() {
        let references: References = serde_json::from_value(json!({
            "id": "/the/set",
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/identity": {"principalId": "p"}}},
            "properties": {"virtualMachineProfile": {"networkProfile": {"networkInterfaceConfigurations": [
                {"name": "a", "properties": {
                    "networkSecurityGroup": {"id": "/group"},
                    "ipConfigurations": [{"properties": {"subnet": {"id": "/subnet"}, "applicationSecurityGroups": [{"id": "/asg"}], "loadBalancerBackendAddressPools": [{"id": "/one"}, {"id": "/two"}]}}]
                }},
                {"name": "b", "properties": {"ipConfigurations": [{"properties": {"subnet": {"id": "/subnet"}}}]}}
            ]}}}
        }))
        .unwrap();
        let found: Vec<(String, String)> = references.linked().into_iter().map(|l| (l.action, l.resource)).collect();
        let expected = [
            (role::ASSIGN_IDENTITY, "/identity"),
            (role::JOIN_APPLICATION_GROUP, "/asg"),
            (role::JOIN_BACKEND_POOL, "/one"),
            (role::JOIN_BACKEND_POOL, "/two"),
            (role::JOIN_SECURITY_GROUP, "/group"),
            (role::JOIN_SUBNET, "/subnet"),
        ];
        assert_eq!(found, expected.map(|(action, id)| (action.to_owned(), id.to_owned())));
    }

    #[test]
    fn locks_of_a_pool_and_above_it_apply() {
        let lock = |scope: &str| -> LockModel {
            let id = format!("{scope}/providers/Microsoft.Authorization/locks/keep");
            serde_json::from_value(json!({"id": id, "name": "keep", "properties": {"level": "CanNotDelete"}})).unwrap()
        };
        let group = "/subscriptions/s/resourceGroups/G";
        let pool = format!("{group}/providers/Microsoft.Compute/virtualMachineScaleSets/pool");
        for scope in ["/subscriptions/S", "/subscriptions/s/resourcegroups/g", &pool] {
            let expected = Lock { name: "keep".into(), level: "CanNotDelete".into(), scope: scope.to_owned() };
            assert_eq!(lock(scope).read(&pool), Some(expected));
        }
        for other in [format!("{pool}2"), format!("{group}/providers/Microsoft.Storage/storageAccounts/x")] {
            assert_eq!(lock(&other).read(&pool), None, "{other}");
        }
    }
}
