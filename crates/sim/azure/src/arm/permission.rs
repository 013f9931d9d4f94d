//! Role checks: the action that a request needs, and the actions on other resources that its body refers to.

use http::{Method, StatusCode};
use serde_json::Value;

use super::call::Call;
use super::error::ArmError;
use super::id::{ResourceId, Target};
use super::kind::ResourceKind;
use crate::sim::State;

/// Rejects a request that the caller's roles do not allow.
pub(super) fn check(_state: &State, call: &Call, target: &Target) -> Result<(), ArmError> {
    let Some((action, scope)) = required_action(call, target) else { return Ok(()) };
    if call.caller.is_allowed(&action) {
        return Ok(());
    }
    let caller = &call.caller;
    let message = format!(
        "The client '{}' with object id '{}' does not have authorization to perform action '{action}' over scope '{scope}' or the scope is invalid. If access was recently granted, please refresh your credentials.",
        caller.client_id, caller.object_id
    );
    Err(ArmError::new(StatusCode::FORBIDDEN, "AuthorizationFailed", message))
}

/// Rejects a write that refers to a resource on which the caller lacks an action.
pub(crate) fn check_linked_action(call: &Call, target: &ResourceId, action: &str, scope: &str) -> Result<(), ArmError> {
    if call.caller.is_allowed(action) {
        return Ok(());
    }
    let caller = &call.caller;
    let message = format!(
        "The client '{}' with object id '{}' has permission to perform action '{}/write' on scope '{target}'; however, it does not have permission to perform action(s) '{action}' on the linked scope(s) '{scope}' (respectively) or the linked scope(s) are invalid.",
        caller.client_id,
        caller.object_id,
        target.kind.full()
    );
    Err(ArmError::new(StatusCode::FORBIDDEN, "LinkedAuthorizationFailed", message))
}

/// Checks the linked actions of everything that the body of a scale set or VM refers to.
pub(crate) fn check_linked_resources(call: &Call, target: &ResourceId) -> Result<(), ArmError> {
    fn walk(value: &Value, key: &str, found: &mut Vec<(&'static str, String)>) {
        match value {
            Value::Object(object) => {
                if let Some(id) = object.get("id").and_then(Value::as_str) {
                    let action = match key {
                        "subnet" => Some("Microsoft.Network/virtualNetworks/subnets/join/action"),
                        "networkSecurityGroup" => Some("Microsoft.Network/networkSecurityGroups/join/action"),
                        "loadBalancerBackendAddressPools" => {
                            Some("Microsoft.Network/loadBalancers/backendAddressPools/join/action")
                        }
                        "applicationSecurityGroups" => {
                            Some("Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action")
                        }
                        "networkInterfaces" => Some("Microsoft.Network/networkInterfaces/join/action"),
                        _ => None,
                    };
                    found.extend(action.map(|action| (action, id.to_owned())));
                }
                if key == "userAssignedIdentities" {
                    found.extend(
                        object
                            .keys()
                            .map(|id| ("Microsoft.ManagedIdentity/userAssignedIdentities/assign/action", id.clone())),
                    );
                }
                object.iter().for_each(|(key, value)| walk(value, key, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, key, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    call.body.iter().for_each(|(key, value)| walk(value, key, &mut found));
    found.iter().try_for_each(|(action, scope)| check_linked_action(call, target, action, scope))
}

/// The required action and the scope to check it at.
fn required_action(call: &Call, target: &Target) -> Option<(String, String)> {
    let verb = match call.method {
        Method::GET | Method::HEAD => "read",
        Method::DELETE => "delete",
        Method::POST => "action",
        _ => "write",
    };
    let group = "Microsoft.Resources/subscriptions/resourceGroups";
    Some(match target {
        Target::Endpoints
        | Target::Subscriptions
        | Target::Tenants
        | Target::Permissions { .. }
        | Target::UnknownType { .. } => return None,
        Target::Subscription(id) => {
            ("Microsoft.Resources/subscriptions/read".to_owned(), format!("/subscriptions/{id}"))
        }
        Target::Locations(id) => {
            ("Microsoft.Resources/subscriptions/locations/read".to_owned(), format!("/subscriptions/{id}"))
        }
        Target::Groups(id) => (format!("{group}/read"), format!("/subscriptions/{id}")),
        Target::Group { subscription, group: name } => {
            (format!("{group}/{verb}"), format!("/subscriptions/{subscription}/resourceGroups/{name}"))
        }
        Target::Resources { subscription, .. } => {
            ("Microsoft.Resources/subscriptions/resources/read".to_owned(), format!("/subscriptions/{subscription}"))
        }
        Target::Provider { subscription, .. } => {
            ("Microsoft.Resources/subscriptions/providers/read".to_owned(), format!("/subscriptions/{subscription}"))
        }
        Target::ProviderList { subscription, namespace, list } => {
            (format!("{namespace}/{list}/read"), format!("/subscriptions/{subscription}"))
        }
        Target::CommunityVersions { subscription, .. } => (
            "Microsoft.Compute/locations/communityGalleries/images/versions/read".to_owned(),
            format!("/subscriptions/{subscription}"),
        ),
        Target::SharedGallery { subscription, community, path, .. } => {
            let list = if *community { "communityGalleries" } else { "sharedGalleries" };
            let types = path.iter().skip(1).step_by(2).fold(String::new(), |types, part| format!("{types}/{part}"));
            (format!("Microsoft.Compute/locations/{list}{types}/read"), format!("/subscriptions/{subscription}"))
        }
        Target::NodeImages { subscription } => (
            "Microsoft.ContainerService/locations/nodeImageVersions/read".to_owned(),
            format!("/subscriptions/{subscription}"),
        ),
        Target::Operation { subscription, list, .. } => {
            (format!("Microsoft.Compute/locations/{list}/read"), format!("/subscriptions/{subscription}"))
        }
        Target::Locks { scope } => ("Microsoft.Authorization/locks/read".to_owned(), scope.clone()),
        Target::Collection { subscription, group, kind, .. } => {
            let scope = group.as_ref().map_or_else(
                || format!("/subscriptions/{subscription}"),
                |name| format!("/subscriptions/{subscription}/resourceGroups/{name}"),
            );
            (format!("{}/read", kind.full()), scope)
        }
        Target::Resource(id) => (format!("{}/{verb}", id.kind.full()), id.to_string()),
        Target::Action { id, action } => {
            let action =
                if verb == "read" { format!("{}/{action}/read", id.kind.full()) } else { action_name(id.kind, action) };
            (action, id.to_string())
        }
    })
}

fn action_name(kind: ResourceKind, action: &str) -> String {
    /// In Azure's spelling, since paths are case-insensitive.
    const SPELLED: [&str; 9] = [
        "powerOff",
        "manualUpgrade",
        "reimageAll",
        "instanceView",
        "beginGetAccess",
        "endGetAccess",
        "generalize",
        "extensionRollingUpgrade",
        "setOrchestrationServiceState",
    ];
    let spelled = SPELLED.iter().find(|known| known.eq_ignore_ascii_case(action)).copied().unwrap_or(action);
    format!("{}/{spelled}/action", kind.full())
}
