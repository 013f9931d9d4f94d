//! Subresources of pods: binding and eviction.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::Call;
use crate::delete::{self, Options};
use crate::error::{ApiError, Result};
use crate::meta;
use crate::resource::{ObjectKind, Resource};
use crate::selector::Selector;
use crate::store::{Object, Store};
use crate::strategy::pod::scheduled;

fn find(store: &Store, namespace: &str, name: &str) -> Result<Object> {
    let pods = ObjectKind::Pod.resource();
    store.get(pods, namespace, name).cloned().ok_or_else(|| ApiError::not_found(pods, name))
}

/// Binds a pod to a node.
pub(crate) fn bind(store: &mut Store, call: &Call<'_>, (namespace, name): (&str, &str), now: Timestamp) -> Result<()> {
    let binding = call.json()?;
    let node = meta::text(&binding, "/target/name");
    if node.is_empty() {
        let cause = crate::error::FieldError::required("target.name", "");
        return Err(ApiError::invalid(ObjectKind::Pod.resource(), name, &[cause]));
    }
    let pod = find(store, namespace, name)?;
    let uid = meta::uid(&binding);
    let pods = ObjectKind::Pod.resource();
    if !uid.is_empty() && uid != meta::uid(&pod) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(&pod));
        return Err(ApiError::conflict(pods, name, &why));
    }
    if meta::is_terminating(&pod) {
        return Err(ApiError::conflict(
            pods,
            name,
            &format!("pod {name} is being deleted, cannot be assigned to a host"),
        ));
    }
    let bound = meta::text(&pod, "/spec/nodeName");
    if !bound.is_empty() {
        let why = format!("pod {name} is already assigned to node {bound:?}");
        return Err(ApiError::conflict(pods, name, &why));
    }
    if !call.dry_run()? {
        assign(store, &pod, node, now);
    }
    Ok(())
}

/// Assigns a pod to a node.
pub(crate) fn assign(store: &mut Store, pod: &Object, node: &str, now: Timestamp) -> Object {
    let mut pod = Value::clone(pod);
    pod["spec"]["nodeName"] = json!(node);
    set_condition(&mut pod, scheduled(now));
    store.put(ObjectKind::Pod, pod)
}

/// Sets a condition, replacing the one of the same type.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let status = meta::child(object, "status");
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(one) => *one = condition,
        None => list.push(condition),
    }
}

/// Evicts a pod if its budget allows it.
pub(crate) fn evict(store: &mut Store, call: &Call<'_>, (namespace, name): (&str, &str), now: Timestamp) -> Result<()> {
    let eviction = call.json()?;
    let given = meta::name(&eviction);
    if !given.is_empty() && given != name {
        return Err(ApiError::bad("name in URL does not match name in Eviction object"));
    }
    let mut options = match eviction.get("deleteOptions") {
        Some(options) if !options.is_null() => Options::from_object(options)?,
        _ => Options::default(),
    };
    options.dry_run |= call.dry_run()?;
    let pod = find(store, namespace, name)?;
    let phase = meta::text(&pod, "/status/phase");
    // Evicting a pod that does not run or is terminating is not a disruption.
    let needs_no_budget = matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_terminating(&pod);
    if !needs_no_budget {
        check_budget(store, &pod)?;
    }
    delete::check_preconditions(ObjectKind::Pod.resource(), &pod, &options)?;
    // Already checked; setting the condition creates a new revision.
    options.resource_version = None;
    let pod = if options.dry_run { pod } else { mark_disrupted(store, &pod, now) };
    delete::delete(store, ObjectKind::Pod.resource(), &pod, &options, now)?;
    Ok(())
}

fn mark_disrupted(store: &mut Store, pod: &Object, now: Timestamp) -> Object {
    if meta::condition(pod, "DisruptionTarget").is_some_and(|condition| condition["status"] == "True") {
        return pod.clone();
    }
    let mut pod = Value::clone(pod);
    set_condition(
        &mut pod,
        json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": meta::time(now), "lastProbeTime": null,
        }),
    );
    store.put(ObjectKind::Pod, pod)
}

/// Checks whether the pod's budget allows its eviction.
fn check_budget(store: &Store, pod: &Value) -> Result<()> {
    let matching: Vec<Object> = store
        .objects(ObjectKind::Budget, Some(meta::namespace(pod)))
        .into_iter()
        .filter(|budget| {
            Selector::from_object(&budget["spec"]["selector"]).is_some_and(|selector| selector.matches(pod))
        })
        .collect();
    let budget = match matching.as_slice() {
        [] => return Ok(()),
        [budget] => budget,
        _ => {
            return Err(ApiError::without_reason(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let (healthy, wanted) = (number("currentHealthy"), number("desiredHealthy"));
    if !meta::is_ready(pod) {
        let always = meta::text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= wanted && wanted > 0) {
            return Ok(());
        }
    }
    let name = meta::name(budget);
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or_default() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(ApiError::budget(why, 10));
    }
    if number("disruptionsAllowed") == 0 {
        let why = format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently");
        return Err(ApiError::budget(why, 0));
    }
    Ok(())
}

/// The resource of an owner reference, if the server serves it.
pub(crate) fn owner_resource(store: &Store, owner: &Value) -> Option<&'static Resource> {
    let version = meta::text(owner, "/apiVersion");
    let custom = store.definitions().served().map(|definition| definition.resource);
    crate::resource::RESOURCES
        .iter()
        .chain(custom)
        .find(|resource| resource.kind == meta::text(owner, "/kind") && resource.api_version() == version)
}
