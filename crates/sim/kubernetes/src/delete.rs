//! Deleting: at once, with grace, or when the last finalizer lets go.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::call::Call;
use crate::error::{ApiError, Result};
use crate::meta;
use crate::resource::{Resource, Sort};
use crate::store::{Object, Store};

/// Holds an owner until its dependents were let go.
pub(crate) const ORPHAN: &str = "orphan";
/// Holds an owner until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// How to delete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Propagation,
    pub(crate) dry_run: bool,
}

/// What becomes of those that an object owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Options {
    /// From a `DeleteOptions` object.
    pub(crate) fn of_object(object: &Value) -> Result<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            grace: object.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            propagation: propagation(meta::text(object, "/propagationPolicy"), object.get("orphanDependents"))?,
            dry_run: meta::list(object, "/dryRun").iter().any(|value| value == "All"),
        })
    }

    /// From the body, or else from the query.
    pub(crate) fn of_call(call: &Call<'_>) -> Result<Self> {
        let mut options = match call.json_if_any()? {
            Some(body) => Self::of_object(&body)?,
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

/// What a deletion came to.
#[derive(Debug, Clone)]
pub(crate) enum Deleted {
    /// The object is gone.
    Gone(Object),
    /// It goes later.
    Pending(Object),
}

/// Deletes one object.
pub(crate) fn delete(
    store: &mut Store,
    resource: &'static Resource,
    object: &Object,
    options: &Options,
    now: Timestamp,
) -> Result<Deleted> {
    let name = meta::name(object);
    check_preconditions(resource, object, options)?;
    if resource.sort == Sort::Namespace && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(ApiError::forbidden(resource, name, "this namespace may not be deleted"));
    }
    let mut new = Value::clone(object);
    hold(&mut new, options.propagation);
    let pending = match resource.sort {
        Sort::Namespace => {
            mark(&mut new, now, 0);
            new["status"]["phase"] = json!("Terminating");
            true
        }
        Sort::Pod => grace(&mut new, options.grace, now) > 0 || !meta::finalizers(&new).is_empty(),
        _ if meta::finalizers(&new).is_empty() => false,
        _ => {
            mark(&mut new, now, 0);
            true
        }
    };
    if options.dry_run {
        let new = Object::new(new);
        return Ok(if pending { Deleted::Pending(new) } else { Deleted::Gone(new) });
    }
    if pending {
        let unchanged = new == **object;
        return Ok(Deleted::Pending(if unchanged { object.clone() } else { store.put(resource.sort, new) }));
    }
    let gone = store.remove(resource.sort, meta::namespace(object), name);
    Ok(Deleted::Gone(gone.unwrap_or_else(|| object.clone())))
}

pub(crate) fn check_preconditions(resource: &Resource, object: &Value, options: &Options) -> Result<()> {
    let refuse = |what: &str, asked: &str, is: &str, end: &str| {
        let why = format!("the {what} in the precondition ({asked}) does not match the {what} in record ({is}). {end}");
        Err(ApiError::precondition(resource, meta::name(object), &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != meta::uid(object)) {
        return refuse("UID", uid, meta::uid(object), "The object might have been deleted and then recreated");
    }
    let is = meta::resource_version(object);
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != is) {
        return refuse("ResourceVersion", version, is, "The object might have been modified");
    }
    Ok(())
}

fn hold(object: &mut Value, propagation: Propagation) {
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

/// Dates the end of an object, once.
fn mark(object: &mut Value, end: Timestamp, grace: i64) {
    if !meta::is_terminating(object) {
        let metadata = meta::metadata(object);
        metadata.insert("deletionTimestamp".to_owned(), json!(meta::time(end)));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    }
}

/// Gives a pod its time to end, or less of it than it had. What is left is 0 when nothing waits for it.
fn grace(pod: &mut Value, asked: Option<i64>, now: Timestamp) -> i64 {
    let ended = matches!(meta::text(pod, "/status/phase"), "Succeeded" | "Failed");
    let asked = asked.map(|asked| if asked < 0 { 1 } else { asked });
    if meta::is_terminating(pod) {
        let had = meta::deletion_grace(pod).unwrap_or_default();
        let Some(asked) = asked.filter(|asked| *asked < had) else { return had };
        let end = meta::text(pod, "/metadata/deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
        let end = (end - SignedDuration::from_secs(had - asked)).max(now);
        meta::metadata(pod).remove("deletionTimestamp");
        mark(pod, end, asked);
        return asked;
    }
    // Nobody runs it: nobody has to end it.
    let period = if ended || meta::text(pod, "/spec/nodeName").is_empty() {
        0
    } else {
        asked.or_else(|| pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64)).unwrap_or(0)
    };
    mark(pod, now + SignedDuration::from_secs(period), period);
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
    fn a_bound_pod_gets_its_grace_and_an_unbound_or_ended_one_none() {
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
