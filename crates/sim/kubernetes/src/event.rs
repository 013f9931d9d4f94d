//! One event, two views: the core group's, which is how it is stored, and that of `events.k8s.io`.

use serde_json::{Map, Value, json};

use crate::resource::{Resource, Sort};

/// Fields that have another name in `events.k8s.io`: core's first.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An object as storage has it.
pub(crate) fn to_stored(resource: &Resource, object: Value) -> Value {
    if resource.sort == Sort::NewEvent { rename(object, "v1", |(core, new)| (new, core)) } else { object }
}

/// An object as a resource shows it.
pub(crate) fn to_shown(resource: &Resource, object: Value) -> Value {
    if resource.sort == Sort::NewEvent { rename(object, &resource.api_version(), |pair| pair) } else { object }
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
    fn an_event_goes_through_both_views_and_comes_back_the_same() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "n"}, "note": "text",
            "reportingController": "c", "reason": "r", "deprecatedCount": 2,
        });
        let resource = Sort::NewEvent.resource();
        let stored = to_stored(resource, new.clone());
        assert_eq!(stored["involvedObject"]["name"], "n");
        assert_eq!(stored["apiVersion"], "v1");
        assert_eq!((&stored["message"], &stored["count"]), (&json!("text"), &json!(2)));
        assert_eq!(to_shown(resource, stored), new);
    }
}
