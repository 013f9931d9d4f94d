//! Deletion: at once, after a grace period, or when the last finalizer is removed.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::call::Call;
use crate::error::{ApiError, Result};
use crate::meta;
use crate::resource::{ObjectKind, Resource};
use crate::store::{Object, Store};

/// The finalizer of an owner until its dependents are orphaned.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an owner until its dependents are deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Delete options.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Propagation,
    pub(crate) dry_run: bool,
}

/// The propagation policy for dependents of a deleted object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Options {
    /// Reads a `DeleteOptions` object.
    pub(crate) fn from_object(object: &Value) -> Result<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            grace: object.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation: propagation(meta::text(object, "/propagationPolicy"), object.get("orphanDependents"))?,
            dry_run: meta::list(object, "/dryRun").iter().any(|value| value == "All"),
        })
    }

    /// Reads the options from the body, or else from the query.
    pub(crate) fn from_call(call: &Call<'_>) -> Result<Self> {
        let mut options = match call.json_if_any()? {
            Some(body) => Self::from_object(&body)?,
            None => Self {
                grace: call.number("gracePeriodSeconds")?,
                propagation: propagation(call.option("propagationPolicy"), None)?,
                ..Self::default()
            },
        };
        options.dry_run |= call.dry_run()?;
        Ok(options)
    }
}

fn propagation(policy: &str, orphan: Option<&Value>) -> Result<Propagation> {
    match policy {
        "" if orphan == Some(&json!(true)) => Ok(Propagation::Orphan),
        "" | "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => Err(ApiError::bad(format!(
            "invalid propagationPolicy {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
        ))),
    }
}

/// The result of a deletion.
#[derive(Debug, Clone)]
pub(crate) enum DeleteOutcome {
    Gone(Object),
    /// The object remains until its grace period or finalizers end.
    Pending(Object),
}

pub(crate) fn delete(
    store: &mut Store,
    resource: &'static Resource,
    object: &Object,
    options: &Options,
    now: Timestamp,
) -> Result<DeleteOutcome> {
    let name = meta::name(object);
    check_preconditions(resource, object, options)?;
    if resource.object_kind == ObjectKind::Namespace && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(ApiError::forbidden(resource, name, "this namespace may not be deleted"));
    }
    let mut new = Value::clone(object);
    add_finalizer(&mut new, options.propagation);
    let pending = match resource.object_kind {
        ObjectKind::Namespace => {
            mark_deleted(&mut new, now, 0);
            new["status"]["phase"] = json!("Terminating");
            true
        }
        // Its objects are deleted first.
        ObjectKind::Definition => {
            mark_deleted(&mut new, now, 0);
            let finalizers = meta::metadata(&mut new).entry("finalizers").or_insert_with(|| json!([]));
            if let Some(finalizers) = finalizers.as_array_mut().filter(|list| !list.contains(&json!(CLEANUP))) {
                finalizers.push(json!(CLEANUP));
            }
            true
        }
        ObjectKind::Pod => grace(&mut new, options.grace, now) > 0 || !meta::finalizers(&new).is_empty(),
        _ if meta::finalizers(&new).is_empty() => false,
        _ => {
            mark_deleted(&mut new, now, 0);
            true
        }
    };
    if options.dry_run {
        let new = Object::new(new);
        return Ok(if pending { DeleteOutcome::Pending(new) } else { DeleteOutcome::Gone(new) });
    }
    if pending {
        let unchanged = new == **object;
        return Ok(DeleteOutcome::Pending(if unchanged {
            object.clone()
        } else {
            store.put(resource.object_kind, new)
        }));
    }
    let gone = store.remove(resource.object_kind, meta::namespace(object), name);
    Ok(DeleteOutcome::Gone(gone.unwrap_or_else(|| object.clone())))
}

pub(crate) fn check_preconditions(resource: &Resource, object: &Value, options: &Options) -> Result<()> {
    let reject = |field: &str, requested: &str, actual: &str, end: &str| {
        let why = format!(
            "the {field} in the precondition ({requested}) does not match the {field} in record ({actual}). {end}"
        );
        Err(ApiError::precondition(resource, meta::name(object), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != meta::uid(object)) {
        return reject("UID", uid, meta::uid(object), "The object might have been deleted and then recreated");
    }
    let actual = meta::resource_version(object);
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != actual) {
        return reject("ResourceVersion", version, actual, "The object might have been modified");
    }
    Ok(())
}

fn add_finalizer(object: &mut Value, propagation: Propagation) {
    let finalizer = match propagation {
        Propagation::Background => return,
        Propagation::Foreground => FOREGROUND,
        Propagation::Orphan => ORPHAN,
    };
    let list = meta::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|one| one == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// Sets the deletion timestamp, once. It is part of the desired state, so the generation changes.
fn mark_deleted(object: &mut Value, end: Timestamp, grace: i64) {
    if !meta::is_terminating(object) {
        let metadata = meta::metadata(object);
        metadata.insert("deletionTimestamp".to_owned(), json!(meta::time(end)));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
    }
}

/// Sets or shortens the grace period of a pod, and returns it. It is 0 if no kubelet has to stop the pod.
fn grace(pod: &mut Value, requested: Option<i64>, now: Timestamp) -> i64 {
    let ended = matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed");
    let requested = requested.map(|requested| if requested < 0 { 1 } else { requested });
    if meta::is_terminating(pod) {
        let current = meta::deletion_grace(pod).unwrap_or_default();
        let Some(requested) = requested.filter(|requested| *requested < current) else {
            return current;
        };
        let end = meta::text(pod, "/metadata/deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
        let end = (end - SignedDuration::from_secs(current - requested)).max(now);
        meta::metadata(pod).remove("deletionTimestamp");
        mark_deleted(pod, end, requested);
        return requested;
    }
    // No kubelet runs it, so there is nothing to wait for.
    let period = if ended || meta::text(pod, "/spec/nodeName").is_empty() {
        0
    } else {
        requested.or_else(|| pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64)).unwrap_or(0)
    };
    mark_deleted(pod, now + SignedDuration::from_secs(period), period);
    period
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod() -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}})
    }

    #[test]
    fn only_bound_running_pods_get_a_grace_period() {
        let mut bound = pod();
        assert_eq!(grace(&mut bound, None, at(0)), 30);
        assert_eq!(bound["metadata"]["deletionTimestamp"], "1970-01-01T00:00:30Z");
        assert_eq!(grace(&mut json!({"spec": {}}), None, at(0)), 0);
        let mut ended = pod();
        ended["status"] = json!({"phase": "Succeeded"});
        assert_eq!(grace(&mut ended, Some(10), at(0)), 0);
        assert_eq!(grace(&mut pod(), Some(-1), at(0)), 1);
    }

    #[test]
    fn grace_is_only_ever_shortened() {
        let mut bound = pod();
        grace(&mut bound, Some(20), at(0));
        assert_eq!(grace(&mut bound, Some(60), at(1)), 20);
        assert_eq!(bound["metadata"]["deletionTimestamp"], "1970-01-01T00:00:20Z");
        assert_eq!(grace(&mut bound, Some(5), at(1)), 5);
        assert_eq!(bound["metadata"]["deletionTimestamp"], "1970-01-01T00:00:05Z");
        assert_eq!(grace(&mut bound, Some(0), at(9)), 0);
        assert_eq!(bound["metadata"]["deletionTimestamp"], "1970-01-01T00:00:09Z");
    }
}
