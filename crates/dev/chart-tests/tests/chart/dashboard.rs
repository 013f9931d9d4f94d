//! The dashboard asks only for metrics and labels that the operator has, and shows all of them.

use std::collections::{BTreeMap, BTreeSet};

use chart_tests::text;
use kiln_engine::operator::{METRICS, MetricKind};
use serde_json::Value;

/// Type and labels of all metrics.
fn metrics() -> BTreeMap<&'static str, (MetricKind, &'static [&'static str])> {
    METRICS.iter().map(|metric| (metric.name, (metric.kind, metric.labels))).collect()
}

fn strings(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| strings(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| strings(value, key, found)),
        _ => {}
    }
}

/// The words of an expression, and the names of labels: those in `by (…)` and before `=~`.
fn words(expression: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect()
}

fn labels(expression: &str) -> Vec<&str> {
    let grouped = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    let matched = expression.split("=~").filter_map(|part| part.rsplit(['{', ',']).next());
    let matched = matched.take(expression.matches("=~").count());
    grouped.flat_map(words).chain(matched).collect()
}

#[test]
fn dashboard_uses_exactly_the_metrics_of_the_operator() {
    let metrics = metrics();
    assert!(metrics.len() > 10, "{metrics:?}");
    let dashboard: Value = serde_json::from_str(&text("files/dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    strings(&dashboard["panels"], "expr", &mut expressions);
    assert!(expressions.len() > 10);
    let mut used = BTreeSet::new();
    for expression in &expressions {
        let mut allowed = BTreeSet::new();
        for word in words(expression).into_iter().filter(|word| word.starts_with("kiln_")) {
            let part = word.strip_suffix("_sum").or_else(|| word.strip_suffix("_count"));
            let known = metrics.get_key_value(word).filter(|(_, (kind, _))| *kind != MetricKind::Summary);
            let known =
                known.or_else(|| metrics.get_key_value(part?).filter(|(_, (kind, _))| *kind == MetricKind::Summary));
            let (name, (kind, labels)) = known.unwrap_or_else(|| panic!("unknown metric `{word}` in `{expression}`"));
            used.insert(*name);
            allowed.extend(labels.iter().copied());
            let is_rate = expression.contains("rate(") || expression.contains("increase(");
            assert_eq!(is_rate, *kind != MetricKind::Gauge, "`{expression}`: `{name}` is a {}", kind.as_str());
        }
        for label in labels(expression) {
            assert!(allowed.contains(label), "`{expression}`: no metric in it has the label `{label}`");
        }
    }
    let missing: Vec<_> = metrics.keys().filter(|name| !used.contains(**name)).collect();
    assert!(missing.is_empty(), "metrics that no panel shows: {missing:?}");
    let mut queries = Vec::new();
    strings(&dashboard["templating"], "definition", &mut queries);
    for query in queries {
        let names = query.trim_start_matches("label_values(").trim_end_matches(')');
        let (metric, label) = names.split_once(", ").unwrap();
        assert!(metrics.get(metric).is_some_and(|(_, labels)| labels.contains(&label)), "{query}");
    }
}

#[test]
fn panels_have_different_places_and_a_description() {
    let dashboard: Value = serde_json::from_str(&text("files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut cells = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{panel}");
        assert!(
            panel["type"] == "row" || panel["description"].as_str().is_some_and(|text| text.ends_with('.')),
            "{panel}"
        );
        let at = |key: &str| panel["gridPos"][key].as_i64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{} overlaps another panel", panel["title"]);
            }
        }
    }
}
