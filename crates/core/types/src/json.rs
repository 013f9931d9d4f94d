//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

/// Applies a merge patch: objects merge member by member, `null` removes a member, any other value replaces the old one.
pub fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        merge_object(target, patch, &[]);
    }
}

/// Applies a merge patch to an object. Members whose name is in `atomic` are replaced as a whole, at every depth: Azure does so with
/// `imageReference`, where the old and the new value may use different members.
pub fn merge_object(target: &mut Map<String, Value>, patch: &Map<String, Value>, atomic: &[&str]) {
    for (name, value) in patch {
        match (value, target.get_mut(name)) {
            (Value::Null, _) => {
                target.remove(name);
            }
            (Value::Object(patch), Some(Value::Object(old))) if !atomic.contains(&name.as_str()) => {
                merge_object(old, patch, atomic);
            }
            (Value::Object(patch), _) => {
                // Merging into an empty object drops the nulls of the patch.
                let mut new = Map::new();
                merge_object(&mut new, patch, atomic);
                target.insert(name.clone(), Value::Object(new));
            }
            (value, _) => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn merge_patch_matches_the_examples_of_rfc_7396() {
        for (mut target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            merge_patch(&mut target, &patch);
            assert_eq!(target, result, "{patch}");
        }
    }

    #[test]
    fn atomic_members_are_replaced_as_a_whole_at_every_depth() {
        let (Value::Object(mut target), Value::Object(patch)) =
            (json!({"x": {"ref": {"sku": "s", "offer": "o"}}}), json!({"x": {"ref": {"id": "i", "sku": null}}}))
        else {
            unreachable!()
        };
        merge_object(&mut target, &patch, &["ref"]);
        assert_eq!(Value::Object(target), json!({"x": {"ref": {"id": "i"}}}));
    }
}
