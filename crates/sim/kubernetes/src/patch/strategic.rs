//! Strategic merge patch: lists are merged by the keys that the API types declare, and directives control the rest.

#![expect(clippy::similar_names, reason = "`path` and `patch` are the terms of the API")]

use serde_json::{Map, Value, json};

use super::same_key;
use crate::error::{ApiError, Result};
use crate::resource::ObjectKind;

/// How a field is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MergeStrategy {
    /// Objects are merged by field, lists are replaced: the default.
    Plain,
    /// The whole value is replaced.
    Replace,
    /// A list of objects, merged by this field.
    By(&'static str),
    /// Like `By`; a patch may list the fields of an element to retain.
    ByRetaining(&'static str),
    /// A list of strings, merged as a set.
    Set,
}

/// The merge strategies of the API types. `path` consists of field names; list elements have the path of their list.
fn strategy(object_kind: ObjectKind, path: &[&str]) -> MergeStrategy {
    let in_pod = |path: &[&str]| match path {
        ["containers" | "initContainers" | "ephemeralContainers" | "imagePullSecrets" | "schedulingGates"] => {
            MergeStrategy::By("name")
        }
        ["volumes" | "resourceClaims"] => MergeStrategy::ByRetaining("name"),
        ["hostAliases"] => MergeStrategy::By("ip"),
        ["topologySpreadConstraints"] => MergeStrategy::By("topologyKey"),
        ["containers" | "initContainers" | "ephemeralContainers", field] => match *field {
            "env" => MergeStrategy::By("name"),
            "ports" => MergeStrategy::By("containerPort"),
            "volumeMounts" => MergeStrategy::By("mountPath"),
            "volumeDevices" => MergeStrategy::By("devicePath"),
            _ => MergeStrategy::Plain,
        },
        _ => MergeStrategy::Plain,
    };
    match (object_kind, path) {
        (_, ["metadata", "finalizers"]) | (ObjectKind::Node, ["spec", "podCIDRs"]) => MergeStrategy::Set,
        (_, ["metadata", "ownerReferences"]) => MergeStrategy::By("uid"),
        (ObjectKind::DaemonSet | ObjectKind::ReplicaSet, ["spec", "template", "spec", rest @ ..])
        | (ObjectKind::Pod, ["spec", rest @ ..]) => in_pod(rest),
        (ObjectKind::Pod, ["status", "podIPs" | "hostIPs"]) => MergeStrategy::By("ip"),
        (ObjectKind::Pod, ["status", "resourceClaimStatuses"]) => MergeStrategy::ByRetaining("name"),
        (ObjectKind::Budget, ["spec", "selector"]) => MergeStrategy::Replace,
        (_, ["status", "conditions"]) | (ObjectKind::Node, ["status", "addresses"]) => MergeStrategy::By("type"),
        _ => MergeStrategy::Plain,
    }
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DROP: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// Merges `patch` into an object.
pub(crate) fn merge(object_kind: ObjectKind, object: &mut Value, patch: &Value) -> Result<()> {
    let Value::Object(patch) = patch else { return Err(ApiError::bad("the patch is not an object")) };
    if !object.is_object() {
        *object = json!({});
    }
    let Some(target) = object.as_object_mut() else { return Ok(()) };
    merge_object(object_kind, &mut Vec::new(), target, patch)
}

fn merge_object<'p>(
    object_kind: ObjectKind,
    path: &mut Vec<&'p str>,
    target: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
) -> Result<()> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            target.clear();
            target.extend(
                patch
                    .iter()
                    .filter(|(key, _)| !is_directive(key))
                    .map(|(key, value)| (key.clone(), strip_directives(value))),
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
        path.push(key);
        if value.is_null() {
            target.remove(key);
        } else {
            merge_field(object_kind, path, target, key, value)?;
        }
        path.pop();
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
            path.push(field);
            if let Some(Value::Array(list)) = target.get_mut(field) {
                sort_by(strategy(object_kind, path), list, order);
            }
            path.pop();
        }
    }
    Ok(())
}

fn merge_field<'p>(
    object_kind: ObjectKind,
    path: &mut Vec<&'p str>,
    target: &mut Map<String, Value>,
    key: &str,
    value: &'p Value,
) -> Result<()> {
    match (strategy(object_kind, path), value) {
        (MergeStrategy::Plain, Value::Object(_)) if !target.contains_key(key) => {
            if !is_directed(value) {
                target.insert(key.to_owned(), strip_directives(value));
            }
        }
        (MergeStrategy::Plain, Value::Object(patch)) => {
            let field = target.entry(key).or_insert_with(|| json!({}));
            if !field.is_object() {
                *field = json!({});
            }
            let Some(field) = field.as_object_mut() else { return Ok(()) };
            let deleted = patch.get(DIRECTIVE) == Some(&json!("delete"));
            merge_object(object_kind, path, field, patch)?;
            if deleted {
                target.remove(key);
            }
        }
        (MergeStrategy::By(name) | MergeStrategy::ByRetaining(name), Value::Array(patch)) => {
            let list = target.entry(key).or_insert_with(|| json!([]));
            if !list.is_array() {
                *list = json!([]);
            }
            let Some(list) = list.as_array_mut() else { return Ok(()) };
            merge_list(object_kind, path, list, patch, name)?;
        }
        (MergeStrategy::Set, Value::Array(patch)) => {
            let list = target.entry(key).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                let new: Vec<Value> = patch.iter().filter(|one| !list.contains(one)).cloned().collect();
                list.extend(new);
            }
        }
        _ => drop(target.insert(key.to_owned(), strip_directives(value))),
    }
    Ok(())
}

fn merge_list<'p>(
    object_kind: ObjectKind,
    path: &mut Vec<&'p str>,
    list: &mut Vec<Value>,
    patch: &'p [Value],
    name: &'static str,
) -> Result<()> {
    // An element `$patch: replace` replaces the whole list with the other elements.
    if patch.iter().any(|one| one.get(DIRECTIVE) == Some(&json!("replace"))) {
        *list = patch.iter().filter(|one| one.get(DIRECTIVE).is_none()).map(strip_directives).collect();
        return Ok(());
    }
    for element in patch {
        let Value::Object(fields) = element else {
            return Err(ApiError::bad(format!("an element of {} is not an object", path.join("."))));
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
            Some(target) => merge_object(object_kind, path, target, fields)?,
            None => list.push(strip_directives(element)),
        }
    }
    Ok(())
}

/// Sorts the elements by `order`; elements that it does not name stay behind their predecessor.
fn sort_by(strategy: MergeStrategy, list: &mut Vec<Value>, order: &[Value]) {
    let rank = |one: &Value| {
        order.iter().position(|named| match strategy {
            MergeStrategy::By(name) | MergeStrategy::ByRetaining(name) => {
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

/// A value for a missing field: without nulls and directives.
fn strip_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null() && !is_directed(value))
                .map(|(key, value)| (key.clone(), strip_directives(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().filter(|one| !is_directed(one)).map(strip_directives).collect()),
        other => other.clone(),
    }
}

/// A directive for a missing value has no effect.
fn is_directed(value: &Value) -> bool {
    value.get(DIRECTIVE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(object_kind: ObjectKind, mut object: Value, patch: &Value) -> Value {
        merge(object_kind, &mut object, patch).unwrap();
        object
    }

    #[test]
    fn containers_and_their_variables_are_merged_by_name() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "K", "value": "1"}]}, {"name": "b", "image": "y"},
        ]}});
        let patch = json!({"spec": {"containers": [
            {"name": "a", "image": "x:2", "env": [{"name": "L", "value": "2"}]}, {"name": "c", "image": "z"},
        ]}});
        assert_eq!(
            merged(ObjectKind::Pod, pod, &patch)["spec"]["containers"],
            json!([
                {"name": "a", "image": "x:2", "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "2"}]},
                {"name": "b", "image": "y"}, {"name": "c", "image": "z"},
            ])
        );
    }

    #[test]
    fn conditions_are_merged_by_type_and_taints_are_replaced() {
        let node = json!({
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}, {"type": "X", "status": "True"}]},
        });
        let patch = json!({
            "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(
            merged(ObjectKind::Node, node, &patch),
            json!({
                "spec": {"taints": [{"key": "b", "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "X", "status": "True"}]},
            })
        );
    }

    #[test]
    fn directives_delete_replace_and_order_elements() {
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
            merged(ObjectKind::Pod, pod, &patch),
            json!({
                "metadata": {"finalizers": ["b.io/y", "c.io/z"], "labels": {"n": "1"}},
                "spec": {"containers": [{"name": "c"}, {"name": "b"}], "volumes": [{"name": "v", "hostPath": {"path": "/x"}}]},
            })
        );
        let node = json!({"status": {"conditions": [{"type": "A"}, {"type": "B"}]}});
        let patch = json!({"status": {"conditions": [{"$patch": "replace"}, {"type": "C"}]}});
        assert_eq!(merged(ObjectKind::Node, node, &patch), json!({"status": {"conditions": [{"type": "C"}]}}));
    }

    #[test]
    fn null_removes_a_field_and_a_missing_merge_key_is_rejected() {
        let node = json!({"spec": {"unschedulable": true, "taints": [1]}});
        assert_eq!(
            merged(ObjectKind::Node, node, &json!({"spec": {"unschedulable": null, "taints": null}})),
            json!({"spec": {}})
        );
        let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
        assert!(merge(ObjectKind::Pod, &mut pod, &json!({"spec": {"containers": [{"image": "x"}]}})).is_err());
    }
}
