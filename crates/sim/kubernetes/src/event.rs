//! Events in both API groups: `v1`, which is the stored form, and `events.k8s.io`.

use serde_json::{Map, Value, json};

use crate::resource::{ObjectKind, Resource};

/// Fields with another name in `events.k8s.io`: the core name first.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts an object to its stored form.
pub(crate) fn to_stored(resource: &Resource, object: Value) -> Value {
    if resource.object_kind == ObjectKind::NewEvent { rename(object, "v1", |(core, new)| (new, core)) } else { object }
}

/// Converts an object to the representation of a resource.
pub(crate) fn from_stored(resource: &Resource, object: Value) -> Value {
    if resource.object_kind == ObjectKind::NewEvent {
        rename(object, &resource.api_version(), |pair| pair)
    } else {
        object
    }
}

fn rename(
    object: Value,
    version: &str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(fields) = object else { return object };
    let mut renamed: Map<String, Value> = fields
        .into_iter()
        .map(|(field, value)| {
            let other =
                RENAMED.into_iter().map(direction).find(|(from, _)| *from == field).map(|(_, to)| to.to_owned());
            (other.unwrap_or(field), value)
        })
        .collect();
    renamed.insert("apiVersion".to_owned(), json!(version));
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_round_trip_between_both_groups() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "n"}, "note": "text",
            "reportingController": "c", "reason": "r", "deprecatedCount": 2,
        });
        let resource = ObjectKind::NewEvent.resource();
        let stored = to_stored(resource, new.clone());
        assert_eq!(stored["involvedObject"]["name"], "n");
        assert_eq!(stored["apiVersion"], "v1");
        assert_eq!((&stored["message"], &stored["count"]), (&json!("text"), &json!(2)));
        assert_eq!(from_stored(resource, stored), new);
    }
}
