//! Values, schema and reference page are consistent.

use std::fs;

use chart_tests::{golden, leaves, page, root, schema, text, values};
use serde_json::Value;

/// All paths of the values; a map with user-defined keys is one value.
fn paths(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match (value.as_object(), schema["properties"].as_object()) {
        (Some(object), Some(properties)) if !path.ends_with("resources") => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                paths(value, properties.get(name).unwrap_or(&Value::Null), &path, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn values_and_schema_have_the_same_paths() {
    let (values, schema) = (values(), schema());
    let mut with_default = Vec::new();
    paths(&values, &schema, "", &mut with_default);
    with_default.sort();
    let mut with_schema: Vec<_> = leaves(&schema).into_iter().map(|(path, _)| path).collect();
    with_schema.sort();
    assert_eq!(with_default, with_schema);
}

#[test]
fn defaults_match_the_schema_and_its_objects_are_closed() {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&values()).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut open = vec![(String::new(), &schema)];
    while let Some((path, one)) = open.pop() {
        if let Some(properties) = one["properties"].as_object() {
            assert_eq!(one["additionalProperties"], false, "`{path}` accepts misspelt values");
            open.extend(properties.iter().map(|(name, property)| (format!("{path}/{name}"), property)));
        }
    }
}

#[test]
fn every_value_is_documented() {
    for (path, property) in leaves(&schema()) {
        let about = property["description"].as_str().unwrap_or_default();
        assert!(about.ends_with('.'), "the description of `{path}` is {about:?}");
    }
    // values.yaml has a comment for each group at least.
    let comments = text("values.yaml").lines().filter(|line| line.trim_start().starts_with('#')).count();
    assert!(comments > 50, "{comments} comment lines");
}

#[test]
fn reference_page_is_up_to_date() {
    golden(&root().join("docs/reference/chart.md"), &page(&schema(), &values()));
}

#[test]
fn guide_names_only_existing_values() {
    let guide = fs::read_to_string(root().join("docs/guides/in-cluster.md")).unwrap();
    let schema = schema();
    let leaves: Vec<_> = leaves(&schema).into_iter().map(|(path, _)| path).collect();
    let mut seen = 0;
    let words = guide.split(|c: char| c.is_whitespace() || "`=,;()|:".contains(c));
    // These file names look like values.
    let words =
        words.map(|word| word.trim_end_matches(['.', '*'])).filter(|word| !["azure.json", "kiln.tar"].contains(word));
    for word in words {
        let tops = ["kamino.", "kiln.", "azure.", "proxy.", "caBundle.", "serviceAccount.", "podSecurity.", "cronjob."];
        if tops.iter().any(|top| word.starts_with(top)) && !word.contains('/') {
            let known = leaves.iter().any(|leaf| {
                leaf == word || leaf.starts_with(&format!("{word}.")) || word.starts_with(&format!("{leaf}."))
            });
            assert!(known, "the guide names the unknown value `{word}`");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} values are named");
}
