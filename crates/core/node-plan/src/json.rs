//! Lookup in JSON values.

use serde_json::Value;

/// The value at a path of keys.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_is_found_by_its_path() {
        let value = json!({"d": {"f": 2}});
        assert_eq!((at(&value, &["d", "f"]), at(&value, &["d", "g"])), (Some(&json!(2)), None));
    }
}
