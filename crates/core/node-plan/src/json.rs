//! Merging of JSON values.

use serde_json::{Map, Value};

/// Merges `over` into a value: objects key by key, everything else as a whole. Null removes a key.
pub(crate) fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (name, value) in over {
                if value.is_null() {
                    into.remove(name);
                } else {
                    merge(into.entry(name.clone()).or_insert_with(|| Value::Object(Map::new())), value);
                }
            }
        }
        (into, over) => *into = over.clone(),
    }
}

/// The value at a path of keys.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_merged_and_other_values_replaced() {
        let mut into = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        merge(&mut into, &json!({"a": {"c": [3], "b": null, "e": {"g": null}}, "d": {"f": 2}}));
        assert_eq!(into, json!({"a": {"c": [3], "e": {}}, "d": {"f": 2}}));
        assert_eq!((at(&into, &["d", "f"]), at(&into, &["d", "g"])), (Some(&json!(2)), None));
    }
}
