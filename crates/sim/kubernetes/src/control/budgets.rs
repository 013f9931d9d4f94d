//! Disruption budgets: computes how many disruptions each one allows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::meta;
use crate::pods::{owner_resource, set_condition};
use crate::resource::ObjectKind;
use crate::selector::Selector;
use crate::store::{Object, Store};

/// Updates the status of all budgets of a namespace.
pub(super) fn update(store: &mut Store, namespace: &str, now: Timestamp) {
    for budget in store.objects(ObjectKind::Budget, Some(namespace)) {
        let selector = Selector::from_object(&budget["spec"]["selector"]);
        let pods: Vec<Object> = store
            .objects(ObjectKind::Pod, Some(namespace))
            .into_iter()
            .filter(|pod| selector.as_ref().is_some_and(|selector| selector.matches(pod)))
            .collect();
        let mut new = Value::clone(&budget);
        match expected(store, &budget, &pods) {
            Ok((expected, desired)) => set(&mut new, &pods, expected, desired, now),
            Err(problem) => {
                // No eviction is safe while the pods cannot be counted.
                new["status"]["disruptionsAllowed"] = json!(0);
                condition(&mut new, false, "SyncFailed", &problem, now);
            }
        }
        if new != *budget {
            store.put(ObjectKind::Budget, new);
        }
    }
}

/// The number of expected pods, and how many of them must be healthy.
fn expected(store: &Store, budget: &Value, pods: &[Object]) -> Result<(i64, i64), String> {
    let spec = &budget["spec"];
    if !spec["maxUnavailable"].is_null() {
        let scale = scale(store, pods)?;
        return Ok((scale, (scale - share(&spec["maxUnavailable"], scale)).max(0)));
    }
    match &spec["minAvailable"] {
        Value::Null => Ok((0, 0)),
        Value::Number(number) => {
            Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), number.as_i64().unwrap_or_default()))
        }
        percent => {
            let scale = scale(store, pods)?;
            Ok((scale, share(percent, scale)))
        }
    }
}

/// A number, or a percentage of `whole`, rounded up.
fn share(value: &Value, whole: i64) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            (whole * percent + 99) / 100
        }
        number => number.as_i64().unwrap_or_default(),
    }
}

/// The sum of the desired replicas of the pods' owners. Pods without an owner do not count.
fn scale(store: &Store, pods: &[Object]) -> Result<i64, String> {
    let mut owners: BTreeMap<&str, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = meta::controller(pod) else {
            continue;
        };
        let name = meta::text(owner, "/name");
        let found = owner_resource(store, owner)
            .filter(|resource| resource.object_kind == ObjectKind::ReplicaSet)
            .and_then(|resource| store.get(resource, meta::namespace(pod), name))
            .filter(|object| meta::uid(object) == meta::text(owner, "/uid"));
        let Some(object) = found else {
            return Err(format!("found no controllers for pod {:?}", meta::name(pod)));
        };
        owners.insert(meta::text(owner, "/uid"), object["spec"]["replicas"].as_i64().unwrap_or(1));
    }
    Ok(owners.values().sum())
}

fn set(budget: &mut Value, pods: &[Object], expected: i64, desired: i64, now: Timestamp) {
    let healthy = pods.iter().filter(|pod| !meta::is_terminating(pod) && meta::is_ready(pod)).count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    // Nothing is expected, so no pod is known to be redundant.
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let generation = budget["metadata"]["generation"].clone();
    let status = meta::child(budget, "status");
    for (field, value) in [
        ("currentHealthy", json!(healthy)),
        ("desiredHealthy", json!(desired)),
        ("expectedPods", json!(expected)),
        ("disruptionsAllowed", json!(allowed)),
        ("observedGeneration", generation),
    ] {
        status.insert(field.to_owned(), value);
    }
    if allowed > 0 {
        condition(budget, true, "SufficientPods", "", now);
    } else {
        condition(budget, false, "InsufficientPods", "", now);
    }
}

fn condition(budget: &mut Value, allowed: bool, reason: &str, message: &str, now: Timestamp) {
    let status = if allowed { "True" } else { "False" };
    let generation = budget["status"]["observedGeneration"].clone();
    let since = match meta::condition(budget, "DisruptionAllowed") {
        Some(before) if before["status"] == status => before["lastTransitionTime"].clone(),
        _ => json!(meta::time(now)),
    };
    let mut new = json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    if !generation.is_null() {
        new["observedGeneration"] = generation;
    }
    set_condition(budget, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pod(store: &mut Store, name: &str, ready: bool, owner: Option<&Value>) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "a", "labels": {"app": "x"}},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        });
        if let Some(owner) = owner {
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        store.put(ObjectKind::Pod, pod);
    }

    fn updated_status(store: &mut Store, spec: &Value) -> Value {
        let mut budget = json!({"metadata": {"name": "b", "namespace": "a", "generation": 1}, "spec": spec});
        budget["spec"]["selector"] = json!({"matchLabels": {"app": "x"}});
        store.put(ObjectKind::Budget, budget);
        update(store, "a", NOW);
        store.get(ObjectKind::Budget.resource(), "a", "b").unwrap()["status"].clone()
    }

    fn allowed(store: &mut Store, spec: &Value) -> i64 {
        updated_status(store, spec)["disruptionsAllowed"].as_i64().unwrap()
    }

    #[test]
    fn healthy_pods_beyond_the_required_number_may_be_disrupted() {
        let mut store = Store::new(1);
        for (name, ready) in [("p1", true), ("p2", true), ("p3", false)] {
            pod(&mut store, name, ready, None);
        }
        assert_eq!(allowed(&mut store, &json!({"minAvailable": 1})), 1);
        assert_eq!(allowed(&mut store, &json!({"minAvailable": 2})), 0);
        assert_eq!(allowed(&mut store, &json!({"minAvailable": 3})), 0);
        // Without owners the total is unknown.
        assert_eq!(allowed(&mut store, &json!({"maxUnavailable": 1})), 0);
        assert_eq!(allowed(&mut store, &json!({"minAvailable": "10%"})), 0);
    }

    #[test]
    fn percentages_are_of_the_desired_replicas_and_rounded_up() {
        let mut store = Store::new(1);
        store.put(
            ObjectKind::ReplicaSet,
            json!({"metadata": {"name": "r", "namespace": "a", "uid": "u"}, "spec": {"replicas": 5}}),
        );
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true});
        for name in ["p1", "p2", "p3", "p4", "p5"] {
            pod(&mut store, name, true, Some(&owner));
        }
        assert_eq!(allowed(&mut store, &json!({"maxUnavailable": 2})), 2);
        assert_eq!(allowed(&mut store, &json!({"maxUnavailable": "50%"})), 3);
        assert_eq!(allowed(&mut store, &json!({"minAvailable": "50%"})), 2);
    }

    #[test]
    fn budget_with_an_unknown_owner_allows_no_disruption() {
        let mut store = Store::new(1);
        let owner = json!({"apiVersion": "x/v1", "kind": "Y", "name": "y", "uid": "u", "controller": true});
        pod(&mut store, "p", true, Some(&owner));
        let status = updated_status(&mut store, &json!({"maxUnavailable": 1}));
        assert_eq!(status["disruptionsAllowed"], 0);
        assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    }
}
