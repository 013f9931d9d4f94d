//! Routing of requests to handlers, and the rules that apply to all resource types.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::call::{Answer, Call, HandlerResult};
use super::error::ArmError;
use super::id::{ResourceId, Target};
use super::kind::ResourceKind;
use super::{resources, status};
use crate::compute::{
    definition, disk, extension, gallery, instance, machine, managed_image, scale_set, snapshot, version,
};
use crate::network;
use crate::sim::State;
use crate::world::World;
use crate::world::resource::Resource;

/// Rejects subscriptions of other tenants.
pub(super) fn check_subscription(state: &State, call: &Call, target: &Target) -> Result<(), ArmError> {
    let subscription = match target {
        Target::Endpoints | Target::Subscriptions | Target::Tenants => return Ok(()),
        Target::Subscription(subscription) | Target::Locations(subscription) | Target::Groups(subscription) => {
            subscription
        }
        Target::Group { subscription, .. }
        | Target::Resources { subscription, .. }
        | Target::Collection { subscription, .. }
        | Target::Operation { subscription, .. }
        | Target::ProviderList { subscription, .. }
        | Target::CommunityVersions { subscription, .. }
        | Target::SharedGallery { subscription, .. }
        | Target::NodeImages { subscription }
        | Target::Provider { subscription, .. } => subscription,
        Target::Resource(id) | Target::Action { id, .. } => &id.subscription,
        Target::Permissions { scope } | Target::Locks { scope } => scope.split('/').nth(2).unwrap_or_default(),
        Target::UnknownType { namespace, types } => {
            let message = format!(
                "The resource type '{types}' could not be found in the namespace '{namespace}' for api version '{}'.",
                call.api_version()
            );
            return Err(ArmError::missing("InvalidResourceType", message));
        }
    };
    let spec = &state.world.spec;
    if spec.own_subscriptions().any(|own| subscription.eq_ignore_ascii_case(own)) {
        return Ok(());
    }
    if let Some(foreign) =
        spec.foreign_subscriptions.iter().find(|foreign| foreign.subscription_id.eq_ignore_ascii_case(subscription))
    {
        let message = format!(
            "The access token is from the wrong issuer 'https://sts.windows.net/{}/'. It must match the tenant 'https://sts.windows.net/{}/' associated with this subscription. Please use the authority (URL) 'https://login.windows.net/{}' to get the token.",
            call.caller.tenant, foreign.tenant_id, foreign.tenant_id
        );
        return Err(ArmError::new(StatusCode::UNAUTHORIZED, "InvalidAuthenticationTokenTenant", message));
    }
    Err(ArmError::missing("SubscriptionNotFound", format!("The subscription '{subscription}' could not be found.")))
}

pub(super) fn dispatch(state: &mut State, call: &Call, target: &Target) -> HandlerResult {
    let world = &mut state.world;
    match target {
        Target::Endpoints => Ok(super::endpoints(call)),
        Target::Operation { subscription, id, .. } => status::read(state, call, subscription, id),
        Target::Resource(id) => {
            resources::check_group_exists(world, &id.subscription, &id.group)?;
            parent_must_exist(world, id, &call.method)?;
            resource(world, call, id)
        }
        Target::Action { id, action } => {
            resources::check_group_exists(world, &id.subscription, &id.group)?;
            // `*` means all instances of a scale set.
            let all_of = id.parent().filter(|_| id.kind == ResourceKind::Instance && id.name() == "*");
            let existing = all_of.as_ref().unwrap_or(id);
            world.resources.get(&existing.key()).ok_or_else(|| not_found(existing))?;
            verb(world, call, id, action)
        }
        Target::Collection { subscription, group, kind, parents } => {
            if call.method != Method::GET {
                return Err(not_allowed(call));
            }
            if let Some(group) = group {
                resources::check_group_exists(world, subscription, group)?;
            }
            collection(world, call, subscription, group.as_deref(), *kind, parents)
        }
        other => resources::dispatch(world, call, other),
    }
}

/// Handles a request for a resource.
pub(crate) fn resource(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    if call.method == Method::GET {
        return match id.kind {
            ResourceKind::ScaleSetExtension => extension::get(world, call, id),
            ResourceKind::Subnet => network::get_subnet(world, id),
            _ => read(world, id, call),
        };
    }
    precondition(call, id, world.resources.get(&id.key()))?;
    world.check_not_locked(&id.key())?;
    match id.kind {
        ResourceKind::ScaleSet => scale_set::write(world, call, id),
        ResourceKind::ScaleSetExtension => extension::write(world, call, id),
        ResourceKind::Instance => instance::write(world, call, id),
        ResourceKind::Machine => machine::write(world, call, id),
        ResourceKind::Disk => disk::write(world, call, id),
        ResourceKind::Snapshot => snapshot::write(world, call, id),
        ResourceKind::Image => managed_image::write(world, call, id),
        ResourceKind::Gallery => gallery::write(world, call, id),
        ResourceKind::Definition => definition::write(world, call, id),
        ResourceKind::Version => version::write(world, call, id),
        ResourceKind::Interface
        | ResourceKind::Network
        | ResourceKind::Subnet
        | ResourceKind::SecurityGroup
        | ResourceKind::LoadBalancer
        | ResourceKind::Identity
        | ResourceKind::ManagedCluster
        | ResourceKind::AgentPool => network::write(world, call, id),
    }
}

fn verb(world: &mut World, call: &Call, id: &ResourceId, action: &str) -> HandlerResult {
    match id.kind {
        ResourceKind::ScaleSet => scale_set::act(world, call, id, action),
        ResourceKind::Instance => instance::act(world, call, id, action),
        ResourceKind::Machine => machine::act(world, call, id, action),
        ResourceKind::Disk | ResourceKind::Snapshot => disk::act(world, call, id, action),
        ResourceKind::Gallery => gallery::act(world, call, id, action),
        _ => Err(unknown_action(id, action)),
    }
}

/// Answers a read of a resource.
pub(crate) fn read(world: &World, id: &ResourceId, call: &Call) -> HandlerResult {
    world.resources.get(&id.key()).map(|resource| view(world, resource, call)).ok_or_else(|| not_found(id))
}

/// Returns a resource as clients see it.
pub(super) fn view(world: &World, resource: &Resource, call: &Call) -> Answer {
    let body = match resource.id.kind {
        ResourceKind::ScaleSet => scale_set::view(resource, call),
        ResourceKind::Instance => instance::view(world, resource, call),
        ResourceKind::Machine => machine::view(world, resource, call),
        ResourceKind::Disk => disk::view(world, resource),
        ResourceKind::Snapshot => snapshot::view(resource),
        ResourceKind::Image => managed_image::view(resource),
        ResourceKind::Gallery => gallery::view(resource, call),
        ResourceKind::Version => version::view(world, resource, call),
        _ => Value::Object(resource.envelope()),
    };
    Answer::ok(body).with_etag(resource.etag())
}

fn collection(
    world: &World,
    call: &Call,
    subscription: &str,
    group: Option<&str>,
    kind: ResourceKind,
    parents: &[String],
) -> HandlerResult {
    if kind == ResourceKind::ScaleSetExtension {
        return extension::list(world, call, subscription, group.unwrap_or_default(), parents);
    }
    let prefix = match group {
        Some(group) => format!("/subscriptions/{subscription}/resourcegroups/{group}/").to_ascii_lowercase(),
        None => format!("/subscriptions/{subscription}/").to_ascii_lowercase(),
    };
    let prefix = match (group, parents) {
        (Some(group), [_, ..]) => {
            let names: Vec<&str> = parents.iter().map(String::as_str).chain([""]).collect();
            let id = ResourceId::new(subscription, group, kind, &names);
            let parent = id.parent().ok_or_else(|| not_allowed(call))?;
            world.resources.get(&parent.key()).ok_or_else(|| parent_missing(&id, &parent))?;
            id.key()
        }
        (Some(_), []) => format!("{prefix}providers/{}/", kind.full().to_ascii_lowercase()),
        _ => prefix,
    };
    let mut found: Vec<&Resource> = world
        .resources
        .below(&prefix)
        .map(|(_, resource)| resource)
        .filter(|resource| resource.id.kind == kind)
        .collect();
    if kind == ResourceKind::Instance {
        found.sort_by_key(|resource| resource.id.name().parse::<u64>().unwrap_or(u64::MAX));
    }
    page(world, call, &found, |resource| Ok(view(world, resource, call).body.unwrap_or_default()))
}

/// Returns one page of a list with the link to the next.
pub(crate) fn page<T>(
    world: &World,
    call: &Call,
    items: &[T],
    render: impl Fn(&T) -> Result<Value, ArmError>,
) -> HandlerResult {
    let start: usize = match call.query.get("$skiptoken") {
        None => 0,
        Some(token) => token
            .parse()
            .map_err(|_| ArmError::bad("InvalidSkipToken", format!("The skip token '{token}' is not valid.")))?,
    };
    let size = world.spec.page_size;
    let values = items.iter().skip(start).take(size).map(render).collect::<Result<Vec<_>, _>>()?;
    let mut body = json!({"value": values});
    if start + size < items.len() {
        let mut link =
            format!("{}{}?api-version={}&$skiptoken={}", call.base, call.path, call.api_version(), start + size);
        if let Some(expand) = call.query.get("$expand") {
            link = format!("{link}&$expand={expand}");
        }
        body["nextLink"] = json!(link);
    }
    Ok(Answer::ok(body))
}

/// Checks `If-Match` and `If-None-Match` of resources with an ETag.
pub(crate) fn precondition(call: &Call, id: &ResourceId, resource: Option<&Resource>) -> Result<(), ArmError> {
    if !id.kind.has_etag() {
        return Ok(());
    }
    let etag = resource.and_then(Resource::etag);
    let matches = |given: &str| {
        given.split(',').map(str::trim).any(|one| one == "*" && etag.is_some() || Some(one) == etag.as_deref())
    };
    let fails = call.if_match.as_deref().is_some_and(|given| !matches(given))
        || call.if_none_match.as_deref().is_some_and(matches);
    if fails {
        let message = format!(
            "The condition that the request's If-Match or If-None-Match header states does not hold for resource '{}'.",
            id.name()
        );
        return Err(ArmError::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message));
    }
    Ok(())
}

fn parent_must_exist(world: &World, id: &ResourceId, method: &Method) -> Result<(), ArmError> {
    match id.parent() {
        Some(parent) if world.resources.get(&parent.key()).is_none() => {
            Err(if method == Method::GET { not_found(id) } else { parent_missing(id, &parent) })
        }
        _ => Ok(()),
    }
}

fn parent_missing(id: &ResourceId, parent: &ResourceId) -> ArmError {
    let message = format!(
        "Failed to perform '{}' on resource(s) of type '{}', because the parent resource '{parent}' could not be found.",
        "read/write",
        id.kind.types()
    );
    ArmError::missing("ParentResourceNotFound", message)
}

/// The 404 error of a missing resource.
pub(crate) fn not_found(id: &ResourceId) -> ArmError {
    let message = format!(
        "The Resource '{}/{}' under resource group '{}' was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
        id.kind.full(),
        id.names.join("/"),
        id.group
    );
    ArmError::missing("ResourceNotFound", message)
}

/// The 405 error of an unsupported method.
pub(crate) fn not_allowed(call: &Call) -> ArmError {
    let message = format!("The http method '{}' is not supported for this resource.", call.method);
    ArmError::new(StatusCode::METHOD_NOT_ALLOWED, "HttpMethodNotSupported", message)
}

/// The 404 error of an unknown action.
pub(crate) fn unknown_action(id: &ResourceId, action: &str) -> ArmError {
    ArmError::missing(
        "InvalidResourceType",
        format!("'{action}' is not an operation of resource type '{}'.", id.kind.full()),
    )
}
