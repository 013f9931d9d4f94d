//! Strategic merge patch: lists merge by a key that the API's types name, and directives say the rest.

use serde_json::{Map, Value, json};

use super::same_key;
use crate::error::{ApiError, Result};
use crate::resource::Sort;

/// How a field merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Objects field by field, lists whole: where the types say nothing.
    Plain,
    /// Whole.
    Replace,
    /// A list of objects by one of their fields.
    By(&'static str),
    /// The same; a patch may say which other fields of an element stay.
    ByRetaining(&'static str),
    /// A list of texts, as a set.
    Set,
}

/// The merge keys of the API's types. `path` has the names of fields, elements of lists count as their list.
fn way(sort: Sort, path: &[&str]) -> Way {
    let in_pod = |path: &[&str]| match path {
        ["containers" | "initContainers" | "ephemeralContainers" | "imagePullSecrets" | "schedulingGates"] => {
            Way::By("name")
        }
        ["volumes" | "resourceClaims"] => Way::ByRetaining("name"),
        ["hostAliases"] => Way::By("ip"),
        ["topologySpreadConstraints"] => Way::By("topologyKey"),
        ["containers" | "initContainers" | "ephemeralContainers", field] => match *field {
            "env" => Way::By("name"),
            "ports" => Way::By("containerPort"),
            "volumeMounts" => Way::By("mountPath"),
            "volumeDevices" => Way::By("devicePath"),
            _ => Way::Plain,
        },
        _ => Way::Plain,
    };
    match (sort, path) {
        (_, ["metadata", "finalizers"]) | (Sort::Node, ["spec", "podCIDRs"]) => Way::Set,
        (_, ["metadata", "ownerReferences"]) => Way::By("uid"),
        (Sort::DaemonSet | Sort::ReplicaSet, ["spec", "template", "spec", rest @ ..])
        | (Sort::Pod, ["spec", rest @ ..]) => in_pod(rest),
        (Sort::Pod, ["status", "podIPs" | "hostIPs"]) => Way::By("ip"),
        (Sort::Pod, ["status", "resourceClaimStatuses"]) => Way::ByRetaining("name"),
        (Sort::Budget, ["spec", "selector"]) => Way::Replace,
        (_, ["status", "conditions"]) | (Sort::Node, ["status", "addresses"]) => Way::By("type"),
        _ => Way::Plain,
    }
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DROP: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Merges `patch` into an object of this sort.
pub(crate) fn merge(sort: Sort, object: &mut Value, patch: &Value) -> Result<()> {
    let Value::Object(patch) = patch else { return Err(ApiError::bad("the patch is no object")) };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(target) = object.as_object_mut() else { return Ok(()) };
    merge_object(sort, &mut Vec::new(), target, patch)
}

fn merge_object<'p>(
    sort: Sort,
    place: &mut Vec<&'p str>,
    target: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
) -> Result<()> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
            target.extend(
                patch.iter().filter(|(key, _)| !is_directive(key)).map(|(key, value)| (key.clone(), bare(value))),
            );
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(other) => return Err(ApiError::bad(format!("unknown patch directive `{other}`"))),
    }
    if let Some(kept) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|one| one == key));
    }
    for (key, value) in patch {
        if is_directive(key) {
            continue;
        }
        place.push(key);
        if value.is_null() {
            target.remove(key);
        } else {
            merge_field(sort, place, target, key, value)?;
        }
        place.pop();
    }
    for (key, value) in patch {
        if let (Some(field), Some(gone)) = (key.strip_prefix(DROP), value.as_array())
            && let Some(Value::Array(list)) = target.get_mut(field)
        {
            list.retain(|one| !gone.contains(one));
        }
    }
    for (key, value) in patch {
        if let (Some(field), Some(order)) = (key.strip_prefix(ORDER), value.as_array()) {
            place.push(field);
            if let Some(Value::Array(list)) = target.get_mut(field) {
                sort_by(way(sort, place), list, order);
            }
            place.pop();
        }
    }
    Ok(())
}

fn merge_field<'p>(
    sort: Sort,
    place: &mut Vec<&'p str>,
    target: &mut Map<String, Value>,
    key: &str,
    value: &'p Value,
) -> Result<()> {
    match (way(sort, place), value) {
        (Way::Plain, Value::Object(_)) if !target.contains_key(key) => {
            if !is_directed(value) {
                target.insert(key.to_owned(), bare(value));
            }
        }
        (Way::Plain, Value::Object(patch)) => {
            let field = target.entry(key).or_insert_with(|| json!({}));
            if !field.is_object() {
                *field = json!({});
            }
            let Some(field) = field.as_object_mut() else { return Ok(()) };
            let deleted = patch.get(DIRECTIVE) == Some(&json!("delete"));
            merge_object(sort, place, field, patch)?;
            if deleted {
                target.remove(key);
            }
        }
        (Way::By(name) | Way::ByRetaining(name), Value::Array(patch)) => {
            let list = target.entry(key).or_insert_with(|| json!([]));
            if !list.is_array() {
                *list = json!([]);
            }
            let Some(list) = list.as_array_mut() else { return Ok(()) };
            merge_list(sort, place, list, patch, name)?;
        }
        (Way::Set, Value::Array(patch)) => {
            let list = target.entry(key).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                let new: Vec<Value> = patch.iter().filter(|one| !list.contains(one)).cloned().collect();
                list.extend(new);
            }
        }
        _ => drop(target.insert(key.to_owned(), bare(value))),
    }
    Ok(())
}

fn merge_list<'p>(
    sort: Sort,
    place: &mut Vec<&'p str>,
    list: &mut Vec<Value>,
    patch: &'p [Value],
    name: &'static str,
) -> Result<()> {
    // One element that is nothing but `$patch: replace` makes the rest the whole list.
    if patch.iter().any(|one| one.get(DIRECTIVE) == Some(&json!("replace"))) {
        *list = patch.iter().filter(|one| one.get(DIRECTIVE).is_none()).map(bare).collect();
        return Ok(());
    }
    for element in patch {
        let Value::Object(fields) = element else {
            return Err(ApiError::bad(format!("an element of {} is no object", place.join("."))));
        };
        let Some(key) = fields.get(name).filter(|key| !key.is_null()) else {
            return Err(ApiError::bad(format!("map: {element} does not contain declared merge key: {name}")));
        };
        let found = list.iter().position(|one| one.get(name).is_some_and(|own| same_key(own, key)));
        if fields.get(DIRECTIVE) == Some(&json!("delete")) {
            list.retain(|one| !one.get(name).is_some_and(|own| same_key(own, key)));
            continue;
        }
        match found.and_then(|at| list[at].as_object_mut()) {
            Some(target) => merge_object(sort, place, target, fields)?,
            None => list.push(bare(element)),
        }
    }
    Ok(())
}

/// Elements that the order names come in that order; the others keep their place behind the one that they followed.
fn sort_by(way: Way, list: &mut Vec<Value>, order: &[Value]) {
    let rank = |one: &Value| {
        order.iter().position(|named| match way {
            Way::By(name) | Way::ByRetaining(name) => {
                one.get(name).zip(named.get(name)).is_some_and(|(own, named)| same_key(own, named))
            }
            _ => one == named,
        })
    };
    let mut latest = 0;
    let mut ranked: Vec<(usize, Value)> = std::mem::take(list)
        .into_iter()
        .map(|one| {
            if let Some(rank) = rank(&one) {
                latest = rank;
                (rank, one)
            } else {
                (latest, one)
            }
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    *list = ranked.into_iter().map(|(_, one)| one).collect();
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN || key.starts_with(DROP) || key.starts_with(ORDER)
}

/// A value for a place where nothing was: without nulls, and without what a directive speaks of.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null() && !is_directed(value))
                .map(|(key, value)| (key.clone(), bare(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().filter(|one| !is_directed(one)).map(bare).collect()),
        other => other.clone(),
    }
}

/// A directive about something that is not there is about nothing.
fn is_directed(value: &Value) -> bool {
    value.get(DIRECTIVE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(sort: Sort, mut object: Value, patch: &Value) -> Value {
        merge(sort, &mut object, patch).unwrap();
        object
    }

    #[test]
    fn containers_merge_by_name_and_their_variables_too() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "K", "value": "1"}]}, {"name": "b", "image": "y"},
        ]}});
        let patch = json!({"spec": {"containers": [
            {"name": "a", "image": "x:2", "env": [{"name": "L", "value": "2"}]}, {"name": "c", "image": "z"},
        ]}});
        assert_eq!(
            merged(Sort::Pod, pod, &patch)["spec"]["containers"],
            json!([
                {"name": "a", "image": "x:2", "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "2"}]},
                {"name": "b", "image": "y"}, {"name": "c", "image": "z"},
            ])
        );
    }

    #[test]
    fn conditions_merge_by_type_and_taints_are_one_list() {
        let node = json!({
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}, {"type": "X", "status": "True"}]},
        });
        let patch = json!({
            "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(
            merged(Sort::Node, node, &patch),
            json!({
                "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "X", "status": "True"}]},
            })
        );
    }

    #[test]
    fn directives_delete_replace_order_and_take_out_of_sets() {
        let pod = json!({
            "metadata": {"finalizers": ["a.io/x", "b.io/y"], "labels": {"k": "v"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}]},
        });
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a.io/x"], "finalizers": ["c.io/z"], "labels": {"$patch": "replace", "n": "1"}},
            "spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
                "containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}],
                "volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}],
            },
        });
        assert_eq!(
            merged(Sort::Pod, pod, &patch),
            json!({
                "metadata": {"finalizers": ["b.io/y", "c.io/z"], "labels": {"n": "1"}},
                "spec": {"containers": [{"name": "c"}, {"name": "b"}], "volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
            })
        );
        let node = json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}});
        let patch = json!({"status": {"conditions": [{"$patch": "replace"}, {"type": "C"}]}});
        assert_eq!(merged(Sort::Node, node, &patch), json!({"status": {"conditions": [{"type": "C"}]}}));
    }

    #[test]
    fn null_removes_and_a_missing_merge_key_is_refused() {
        let node = json!({"spec": {"unschedulable": true, "taints": [1]}});
        assert_eq!(
            merged(Sort::Node, node, &json!({"spec": {"unschedulable": null, "taints": null}})),
            json!({"spec": {}})
        );
        let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
        assert!(merge(Sort::Pod, &mut pod, &json!({"spec": {"containers": [{"image": "x"}]}})).is_err());
    }
}
