//! What the owner of a resource group adds to roles: locks, and a policy that requires tags.

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::call::{Answer, Call};
use super::error::ArmError;
use super::id::{ResourceId, Target};
use super::kind::ResourceKind;
use crate::world::World;
use crate::world::spec::WorldSpec;

/// A lock of the resource group, or of one resource in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    pub name: String,
    pub level: LockLevel,
    /// Path below the group's providers, such as `Microsoft.Compute/galleries/g`; absent for the group.
    #[serde(default)]
    pub path: Option<String>,
}

/// What a lock prevents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockLevel {
    CanNotDelete,
    ReadOnly,
}

impl Lock {
    fn scope(&self, spec: &WorldSpec) -> String {
        let group = format!("/subscriptions/{}/resourceGroups/{}", spec.subscription_id, spec.resource_group);
        self.path.as_ref().map_or(group.clone(), |path| format!("{group}/providers/{path}"))
    }
}

/// Rejects a request that a lock or the policy forbids.
pub(super) fn check(world: &World, call: &Call, target: &Target) -> Result<(), ArmError> {
    let id = match target {
        Target::Resource(id) | Target::Action { id, .. } if call.method != Method::GET => id,
        _ => return Ok(()),
    };
    check_locks(world, call, id)?;
    match target {
        Target::Resource(_) if call.method == Method::PUT => check_policy(world, call, id),
        _ => Ok(()),
    }
}

fn check_locks(world: &World, call: &Call, id: &ResourceId) -> Result<(), ArmError> {
    let deletes = call.method == Method::DELETE;
    let path = format!("{}/", id.key());
    let locks = world.spec.locks.iter().filter(|lock| deletes || lock.level == LockLevel::ReadOnly);
    let scope = locks
        .map(|lock| lock.scope(&world.spec))
        .find(|scope| path.starts_with(&format!("{}/", scope.to_ascii_lowercase())));
    let Some(scope) = scope else { return Ok(()) };
    let verb = if deletes { "delete" } else { "write" };
    let message = format!(
        "The scope '{id}' cannot perform {verb} operation because following scope(s) are locked: '{scope}'. Please remove the lock and try again."
    );
    Err(ArmError::conflict("ScopeLocked", message))
}

/// Requires the tags of the policy on a new resource that can have tags.
fn check_policy(world: &World, call: &Call, id: &ResourceId) -> Result<(), ArmError> {
    let has_tags = !matches!(id.kind, ResourceKind::ScaleSetExtension | ResourceKind::Instance | ResourceKind::Subnet);
    if !has_tags || world.resources.get(&id.key()).is_some() {
        return Ok(());
    }
    let tags = call.field("tags").and_then(Value::as_object);
    let has = |name: &String| tags.is_some_and(|tags| tags.keys().any(|key| key.eq_ignore_ascii_case(name)));
    let Some(missing) = world.spec.required_tags.iter().find(|name| !has(name)) else { return Ok(()) };
    let message = format!(
        "Resource '{}' was disallowed by policy. Policy identifiers: '[{{\"policyAssignment\":{{\"name\":\"Require tag {missing}\"}}}}]'.",
        id.name()
    );
    Err(ArmError::new(StatusCode::FORBIDDEN, "RequestDisallowedByPolicy", message).about(id.name()))
}

/// Lists the locks at, above and below a scope.
pub(super) fn list(world: &World, scope: &str) -> Answer {
    let wanted = format!("{}/", scope.to_ascii_lowercase());
    let related = |lock: &&Lock| {
        let scope = format!("{}/", lock.scope(&world.spec).to_ascii_lowercase());
        scope.starts_with(&wanted) || wanted.starts_with(&scope)
    };
    let view = |lock: &Lock| {
        let id = format!("{}/providers/Microsoft.Authorization/locks/{}", lock.scope(&world.spec), lock.name);
        json!({"id": id, "name": lock.name, "type": "Microsoft.Authorization/locks", "properties": {"level": lock.level}})
    };
    Answer::ok(json!({"value": world.spec.locks.iter().filter(related).map(view).collect::<Vec<_>>()}))
}
