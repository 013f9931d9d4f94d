//! Validation by a structural schema, with the messages of the real server.

use jiff::Timestamp;
use regex_lite::Regex;
use serde_json::{Map, Value, json};

use super::fields::{field_schema, flag};
use crate::error::FieldError;

/// Checks an object.
pub(super) fn check(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut causes = Vec::new();
    check_value(schema, object, "", &mut causes);
    check_lists(schema, object, "", &mut causes);
    causes
}

/// Whether an object with these errors is too wrong for rules.
pub(super) fn are_blocking(causes: &[FieldError]) -> bool {
    const BLOCKING: [&str; 5] = [
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
    ];
    causes.iter().any(|cause| BLOCKING.contains(&cause.reason))
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The name of a value's type in messages.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `1.0` is an integer, too.
fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn wrong_type(path: &str, value: &str, wanted: &str) -> FieldError {
    let message = format!("Invalid value: {value:?}: {path} in body must be of type {wanted}: {value:?}");
    FieldError { reason: "FieldValueTypeInvalid", field: path.to_owned(), message }
}

fn check_value(schema: &Value, value: &Value, path: &str, causes: &mut Vec<FieldError>) {
    if !schema.is_object() || (value.is_null() && flag(schema, "nullable")) {
        return;
    }
    check_type(schema, value, path, causes);
    if let Some(known) = schema.get("enum").and_then(Value::as_array).filter(|known| !known.contains(value)) {
        let known: Vec<String> =
            known.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        causes.push(FieldError::unsupported(path, value, &known));
    }
    match value {
        Value::Object(fields) => check_fields(schema, fields, path, causes),
        Value::Array(items) => {
            check_count(schema, items.len(), ("minItems", "maxItems"), path, causes);
            if flag(schema, "uniqueItems") && (1..items.len()).any(|at| items[..at].contains(&items[at])) {
                causes.push(invalid(path, value, "shouldn't contain duplicates"));
            }
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check_value(schema, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(number) => check_number(schema, number, path, causes),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(schema, value, path, causes);
}

fn invalid(path: &str, value: &Value, why: &str) -> FieldError {
    FieldError::invalid(path, value, &format!("{path} in body {why}"))
}

fn check_type(schema: &Value, value: &Value, path: &str, causes: &mut Vec<FieldError>) {
    let actual = type_name(value);
    if flag(schema, "x-kubernetes-int-or-string") {
        if !matches!(actual, "integer" | "string") {
            causes.push(wrong_type(path, actual, "integer,string"));
        }
        return;
    }
    let Some(wanted) = schema.get("type").and_then(Value::as_str) else {
        return;
    };
    if actual != wanted && !(wanted == "number" && actual == "integer") {
        causes.push(wrong_type(path, actual, wanted));
    }
}

fn check_fields(schema: &Value, fields: &Map<String, Value>, path: &str, causes: &mut Vec<FieldError>) {
    for field in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(field) {
            causes.push(FieldError::required(join(path, field), ""));
        }
    }
    check_count(schema, fields.len(), ("minProperties", "maxProperties"), path, causes);
    for (field, value) in fields {
        if let Some(schema) = field_schema(schema, field) {
            check_value(schema, value, &join(path, field), causes);
        }
    }
}

fn check_count(schema: &Value, count: usize, (low, high): (&str, &str), path: &str, causes: &mut Vec<FieldError>) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    if let Some(least) = limit(low).filter(|least| count < *least) {
        let what = if low == "minItems" { "items" } else { "properties" };
        causes.push(invalid(path, &json!(count), &format!("should have at least {least} {what}")));
    }
    if let Some(most) = limit(high).filter(|most| count > *most) {
        let message = format!("Too many: {count}: must have at most {most} items");
        causes.push(FieldError { reason: "FieldValueTooMany", field: path.to_owned(), message });
    }
}

fn check_text(schema: &Value, text: &str, path: &str, causes: &mut Vec<FieldError>) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    let length = text.chars().count() as u64;
    let value = json!(text);
    if let Some(least) = limit("minLength").filter(|least| length < *least) {
        causes.push(invalid(path, &value, &format!("should be at least {least} chars long")));
    }
    if let Some(most) = limit("maxLength").filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(FieldError { reason: "FieldValueTooLong", field: path.to_owned(), message });
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        // A pattern that this crate does not understand is not enforced.
        && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
    {
        causes.push(invalid(path, &value, &format!("should match '{pattern}'")));
    }
    if schema.get("format") == Some(&json!("date-time")) && text.parse::<Timestamp>().is_err() {
        causes.push(wrong_type(path, text, "date-time"));
    }
}

fn check_number(schema: &Value, number: &serde_json::Number, path: &str, causes: &mut Vec<FieldError>) {
    let limit = |name: &str| schema.get(name).filter(|limit| limit.is_number());
    let float = |value: &Value| value.as_f64().unwrap_or_default();
    let own = number.as_f64().unwrap_or_default();
    let value = Value::Number(number.clone());
    if let Some(least) = limit("minimum") {
        let exclusive = flag(schema, "exclusiveMinimum");
        if own < float(least) || (exclusive && own <= float(least)) {
            let what = if exclusive { "greater than" } else { "greater than or equal to" };
            causes.push(invalid(path, &value, &format!("should be {what} {}", short(least))));
        }
    }
    if let Some(most) = limit("maximum") {
        let exclusive = flag(schema, "exclusiveMaximum");
        if own > float(most) || (exclusive && own >= float(most)) {
            let what = if exclusive { "less than" } else { "less than or equal to" };
            causes.push(invalid(path, &value, &format!("should be {what} {}", short(most))));
        }
    }
    if let Some(unit) = limit("multipleOf") {
        let quotient = own / float(unit);
        if (quotient - quotient.round()).abs() > f64::EPSILON {
            causes.push(invalid(path, &value, &format!("should be a multiple of {}", short(unit))));
        }
    }
}

/// A limit in messages: `1` for `1.0`, which is what the types of the API make of `1`.
fn short(limit: &Value) -> String {
    limit.as_f64().map_or_else(|| limit.to_string(), |limit| limit.to_string())
}

fn check_combinations(schema: &Value, value: &Value, path: &str, causes: &mut Vec<FieldError>) {
    let parts = |name: &str| schema.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let errors = |schema: &Value| {
        let mut found = Vec::new();
        check_value(schema, value, path, &mut found);
        found
    };
    let whole = |why: &str| FieldError::invalid("<nil>", &json!(""), &format!("{path:?} {why}"));
    for part in parts("allOf") {
        causes.extend(errors(part));
    }
    if !parts("anyOf").is_empty() {
        let found: Vec<_> = parts("anyOf").iter().map(errors).collect();
        if found.iter().all(|errors| !errors.is_empty()) {
            causes.push(whole("must validate at least one schema (anyOf)"));
            causes.extend(found.into_iter().next().unwrap_or_default());
        }
    }
    if !parts("oneOf").is_empty() {
        let found: Vec<_> = parts("oneOf").iter().map(errors).collect();
        match found.iter().filter(|errors| errors.is_empty()).count() {
            0 => {
                causes.push(whole("must validate one and only one schema (oneOf). Found none valid"));
                causes.extend(found.into_iter().next().unwrap_or_default());
            }
            1 => {}
            several => causes.push(whole(&format!(
                "must validate one and only one schema (oneOf). Found {several} valid alternatives"
            ))),
        }
    }
    if schema.get("not").is_some_and(|not| errors(not).is_empty()) {
        causes.push(whole("must not validate the schema (not)"));
    }
}

/// Elements of sets, and keys of lists that are maps, are unique.
fn check_lists(schema: &Value, value: &Value, path: &str, causes: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                if let Some(schema) = field_schema(schema, field) {
                    check_lists(schema, value, &join(path, field), causes);
                }
            }
        }
        Value::Array(items) => {
            let keys: Vec<Value> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => items.clone(),
                Some("map") => items.iter().map(|item| list_key(schema, item)).collect(),
                _ => Vec::new(),
            };
            for (index, key) in keys.iter().enumerate().filter(|(index, key)| keys[..*index].contains(key)) {
                causes.push(FieldError::duplicate(format!("{path}[{index}]"), key));
            }
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    check_lists(schema, item, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

/// The key of an element of a list that is a map, as an object. A missing part is its default.
pub(crate) fn list_key(schema: &Value, item: &Value) -> Value {
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    let part = |name: &str| {
        let default = || schema.pointer(&format!("/items/properties/{name}/default"));
        Some((name.to_owned(), item.get(name).or_else(default)?.clone()))
    };
    Value::Object(names.filter_map(Value::as_str).filter_map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &Value, value: &Value) -> Vec<String> {
        let object = json!({"f": value});
        let schema = json!({"type": "object", "properties": {"f": schema}});
        check(&schema, &object).into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn nullable_and_numbers_follow_json_schema() {
        assert!(messages(&json!({"type": "string", "nullable": true}), &json!(null)).is_empty());
        assert!(messages(&json!({"type": "number"}), &json!(1)).is_empty());
        assert!(messages(&json!({"type": "integer"}), &json!(1.0)).is_empty());
        assert_eq!(messages(&json!({"type": "integer"}), &json!(1.5)).len(), 1);
        assert!(messages(&json!({"x-kubernetes-int-or-string": true}), &json!("10%")).is_empty());
    }

    #[test]
    fn combinations_are_checked() {
        let any = json!({"anyOf": [{"minimum": 5}, {"maximum": 1}]});
        assert!(messages(&any, &json!(7)).is_empty() && messages(&any, &json!(0)).is_empty());
        assert_eq!(messages(&any, &json!(3)).len(), 2);
        let all = json!({"allOf": [{"minimum": 5}, {"multipleOf": 2}]});
        assert_eq!(messages(&all, &json!(3)).len(), 2);
        assert_eq!(messages(&json!({"not": {"minimum": 5}}), &json!(6)).len(), 1);
    }

    #[test]
    fn keys_of_a_map_use_defaults() {
        let schema = json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"properties": {"protocol": {"default": "TCP"}}},
        });
        let list = json!([{"port": 1}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]);
        assert_eq!(messages(&schema, &list), ["f[2]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}"]);
    }
}
