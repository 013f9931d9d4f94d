//! `Microsoft.Resources`: subscriptions, locations, groups, and lists across types.

use http::Method;
use serde_json::{Value, json};

use super::call::{Answer, Call, HandlerResult};
use super::error::ArmError;
use super::id::{ResourceId, Target};
use super::kind::ResourceKind;
use super::{guardrails, route};
use crate::compute::{community, shared};
use crate::world::operation::{Effect, NewOperation};
use crate::world::resource::{merge, strip_nulls};
use crate::world::{Group, World};

pub(super) fn dispatch(world: &mut World, call: &Call, target: &Target) -> HandlerResult {
    if let Target::Group { subscription, group } = target {
        return one_group(world, call, subscription, group);
    }
    if call.method != Method::GET {
        return Err(route::not_allowed(call));
    }
    match target {
        Target::Tenants => {
            let tenant = &world.spec.tenant_id;
            Ok(Answer::ok(
                json!({"value": [{"id": format!("/tenants/{tenant}"), "tenantId": tenant, "displayName": "embedded"}]}),
            ))
        }
        Target::Subscriptions => {
            let all: Vec<Value> = world.spec.own_subscriptions().map(|id| subscription(world, id)).collect();
            Ok(Answer::ok(json!({"value": all, "nextLink": ""})))
        }
        Target::Subscription(id) => Ok(Answer::ok(subscription(world, id))),
        Target::Locations(id) => {
            let list: Vec<Value> = world.spec.regions.iter().map(|region| location(id, &region.name)).collect();
            Ok(Answer::ok(json!({"value": list})))
        }
        Target::Groups(id) => {
            let is_in = |group: &&Group| group.subscription.eq_ignore_ascii_case(id);
            let groups: Vec<&Group> = world.groups.iter().map(|(_, group)| group).filter(is_in).collect();
            route::page(world, call, &groups, |group| Ok(view(group)))
        }
        Target::Resources { subscription, group } => {
            if let Some(group) = group {
                check_group_exists(world, subscription, group)?;
            }
            let prefix = group.as_ref().map_or_else(
                || format!("/subscriptions/{subscription}/"),
                |group| format!("/subscriptions/{subscription}/resourceGroups/{group}/"),
            );
            let prefix = prefix.to_ascii_lowercase();
            // Child resources are listed below their parents only.
            let all: Vec<_> = world
                .resources
                .below(&prefix)
                .map(|(_, resource)| resource)
                .filter(|resource| resource.id.parent().is_none())
                .collect();
            route::page(world, call, &all, |resource| {
                let mut view = resource.envelope();
                view.remove("properties");
                view.remove("etag");
                Ok(Value::Object(view))
            })
        }
        Target::Provider { subscription, namespace } => Ok(Answer::ok(providers(subscription, namespace.as_deref()))),
        Target::ProviderList { .. } => Ok(Answer::ok(json!({"value": skus(world)}))),
        Target::CommunityVersions { location, gallery, definition, .. } => {
            community::list(world, call, location, gallery, definition)
        }
        Target::SharedGallery { location, community, path, .. } => {
            shared::read(world, call, location, *community, path)
        }
        Target::NodeImages { .. } => community::node_images(world, call),
        Target::Permissions { .. } => {
            let caller = &call.caller;
            Ok(Answer::ok(
                json!({"value": [{"actions": caller.actions, "notActions": caller.not_actions, "dataActions": [], "notDataActions": []}]}),
            ))
        }
        Target::Locks { scope } => Ok(guardrails::list(world, scope)),
        _ => Err(route::not_allowed(call)),
    }
}

/// Returns a 404 error unless the group exists.
pub(super) fn check_group_exists(world: &World, subscription: &str, group: &str) -> Result<(), ArmError> {
    match world.groups.get(&group_key(subscription, group)) {
        Some(_) => Ok(()),
        None => {
            Err(ArmError::missing("ResourceGroupNotFound", format!("Resource group '{group}' could not be found.")))
        }
    }
}

fn group_key(subscription: &str, group: &str) -> String {
    format!("/subscriptions/{subscription}/resourcegroups/{group}").to_ascii_lowercase()
}

fn one_group(world: &mut World, call: &Call, subscription: &str, name: &str) -> HandlerResult {
    let key = group_key(subscription, name);
    let exists = world.groups.get(&key).is_some();
    if call.method == Method::HEAD {
        return Ok(Answer::empty(if exists { 204 } else { 404 }));
    }
    if call.method != Method::PUT {
        check_group_exists(world, subscription, name)?;
    }
    match call.method {
        Method::GET => {}
        Method::PUT => {
            let location = call.text("location")?.to_owned();
            if !world.spec.regions.iter().any(|region| region.name.eq_ignore_ascii_case(&location)) {
                let message = format!("The provided location '{location}' is not available for resource group.");
                return Err(ArmError::bad("LocationNotAvailableForResourceGroup", message));
            }
            if let Some(group) = world.groups.get(&key)
                && group.body.get("location").and_then(Value::as_str) != Some(&location)
            {
                let message = format!(
                    "Invalid resource group location '{location}'. The Resource group already exists in another location."
                );
                return Err(ArmError::conflict("InvalidResourceGroupLocation", message));
            }
            let mut body = Value::Object(call.body.clone());
            strip_nulls(&mut body);
            let Value::Object(body) = body else { return Err(route::not_allowed(call)) };
            world
                .groups
                .insert(key.clone(), Group { subscription: subscription.to_owned(), name: name.to_owned(), body });
        }
        Method::PATCH => {
            if let Some(group) = world.groups.get_mut(&key) {
                merge(&mut group.body, &call.body);
            }
        }
        Method::DELETE => {
            let target = ResourceId::new(subscription, name, ResourceKind::Network, &["group"]);
            let delete = world.spec.profile.delete;
            let operation = world.begin(NewOperation {
                target: &target,
                seconds: delete,
                holds: Vec::new(),
                effects: vec![Effect::RemoveGroup(key)],
                returns_resource: false,
            });
            return Ok(Answer::empty(202).started(operation));
        }
        _ => return Err(route::not_allowed(call)),
    }
    let body = world.groups.get(&key).map(view).unwrap_or_default();
    Ok(Answer::new(if exists { 200 } else { 201 }, body))
}

fn view(group: &Group) -> Value {
    let mut body = group.body.clone();
    body.insert("id".to_owned(), json!(format!("/subscriptions/{}/resourceGroups/{}", group.subscription, group.name)));
    body.insert("name".to_owned(), json!(group.name));
    body.insert("type".to_owned(), json!("Microsoft.Resources/resourceGroups"));
    body.insert("properties".to_owned(), json!({"provisioningState": "Succeeded"}));
    Value::Object(body)
}

fn subscription(world: &World, id: &str) -> Value {
    let spec = &world.spec;
    json!({
        "id": format!("/subscriptions/{id}"),
        "subscriptionId": id,
        "tenantId": spec.tenant_id,
        "displayName": spec.subscription_name,
        "state": "Enabled",
        "subscriptionPolicies": {"locationPlacementId": "Public_2014-09-01", "quotaId": "PayAsYouGo_2014-09-01", "spendingLimit": "Off"},
        "authorizationSource": "RoleBased",
    })
}

fn location(subscription: &str, name: &str) -> Value {
    json!({
        "id": format!("/subscriptions/{subscription}/locations/{name}"),
        "subscriptionId": subscription,
        "name": name,
        "type": "Region",
        "displayName": name,
        "regionalDisplayName": name,
    })
}

fn providers(subscription: &str, only: Option<&str>) -> Value {
    let mut namespaces: Vec<&str> = ResourceKind::ALL.iter().map(|kind| kind.namespace()).collect();
    namespaces.dedup();
    let provider = |namespace: &str| {
        let kinds = ResourceKind::ALL.iter().filter(|kind| kind.namespace().eq_ignore_ascii_case(namespace));
        let types: Vec<Value> =
            kinds.map(|kind| json!({"resourceType": kind.types(), "apiVersions": kind.api_versions()})).collect();
        json!({
            "id": format!("/subscriptions/{subscription}/providers/{namespace}"),
            "namespace": namespace,
            "registrationState": "Registered",
            "resourceTypes": types,
        })
    };
    match only {
        Some(namespace) => provider(
            namespaces.iter().find(|known| known.eq_ignore_ascii_case(namespace)).copied().unwrap_or(namespace),
        ),
        None => json!({"value": namespaces.into_iter().map(provider).collect::<Vec<_>>()}),
    }
}

/// The VM sizes that the pools use, with their regions.
fn skus(world: &World) -> Vec<Value> {
    let mut sizes: Vec<&str> = world.spec.pools.iter().map(|pool| pool.size.as_str()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let capability = |name: &str, value: &str| json!({"name": name, "value": value});
    let one = |(size, region): (&str, &crate::world::spec::Region)| {
        let zones: &[&str] = if region.zones { &["1", "2", "3"] } else { &[] };
        json!({
            "resourceType": "virtualMachines",
            "name": size,
            "tier": "Standard",
            "size": size.strip_prefix("Standard_").unwrap_or(size),
            "locations": [region.name],
            "locationInfo": [{"location": region.name, "zones": zones, "zoneDetails": []}],
            "capabilities": [
                capability("vCPUs", "2"), capability("MemoryGB", "8"), capability("HyperVGenerations", "V1,V2"),
                capability("CpuArchitectureType", "x64"), capability("EphemeralOSDiskSupported", "True"),
            ],
            "restrictions": [],
        })
    };
    sizes.iter().flat_map(|&size| world.spec.regions.iter().map(move |region| (size, region))).map(one).collect()
}
