//! Differences between two documents, field by field, with their effects.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::describe::{FieldType, Shape};
use crate::effect::Effect;
use crate::node_config::NodeConfig;
use crate::spec::Spec;

/// A changed field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// For example `spec.os.sysctl[vm.swappiness]`.
    pub path: String,
    pub from: Option<Value>,
    pub to: Option<Value>,
    pub effect: Effect,
}

/// Returns the changes between the specs of two documents.
pub fn between(from: &NodeConfig, to: &NodeConfig) -> Vec<Change> {
    let mut changes = Vec::new();
    if from.spec == to.spec {
        return changes;
    }
    let value = |config: &NodeConfig| serde_json::to_value(&config.spec).expect("a spec serializes to JSON");
    object("spec", Some(&value(from)), Some(&value(to)), &Spec::shape(), &mut changes);
    changes
}

/// Returns the most disruptive effect of the changes.
pub fn highest_effect(changes: &[Change]) -> Effect {
    changes.iter().map(|change| change.effect).max().unwrap_or(Effect::None)
}

fn object(path: &str, from: Option<&Value>, to: Option<&Value>, shape: &Shape, changes: &mut Vec<Change>) {
    for (name, a, b) in members(from, to) {
        let path = format!("{path}.{name}");
        match shape.field(name) {
            Some(field) => value(&path, a, b, &field.kind, field.effect, changes),
            // An unknown field has no effect, because this version does not read it.
            None => leaf(&path, a, b, Effect::None, changes),
        }
    }
}

/// Returns the fields of two objects with the value in each.
fn members<'v>(
    from: Option<&'v Value>,
    to: Option<&'v Value>,
) -> impl Iterator<Item = (&'v String, Option<&'v Value>, Option<&'v Value>)> {
    let (from, to) = (from.and_then(Value::as_object), to.and_then(Value::as_object));
    let names: BTreeSet<&String> = from.into_iter().chain(to).flat_map(Map::keys).collect();
    names.into_iter().map(move |name| (name, from.and_then(|map| map.get(name)), to.and_then(|map| map.get(name))))
}

fn value(
    path: &str,
    from: Option<&Value>,
    to: Option<&Value>,
    kind: &FieldType,
    effect: Option<Effect>,
    changes: &mut Vec<Change>,
) {
    if from == to {
        return;
    }
    match kind {
        FieldType::Object(shape) => object(path, from, to, &shape(), changes),
        FieldType::Map(inner) => {
            for (name, a, b) in members(from, to) {
                value(&format!("{path}[{name}]"), a, b, inner, effect, changes);
            }
        }
        FieldType::List(inner) => match inner.as_ref() {
            FieldType::Object(shape) if shape().key().is_some() => keyed(path, from, to, &shape(), effect, changes),
            _ => leaf(path, from, to, effect.unwrap_or(Effect::Replace), changes),
        },
        _ => leaf(path, from, to, effect.unwrap_or(Effect::Replace), changes),
    }
}

/// Compares lists whose elements have a key: elements with the same key are compared with each other, and an added or removed element
/// has the effect of the list.
fn keyed(
    path: &str,
    from: Option<&Value>,
    to: Option<&Value>,
    shape: &Shape,
    effect: Option<Effect>,
    changes: &mut Vec<Change>,
) {
    let key = &shape.key().expect("the caller checked that the shape has a key").name;
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |element: &Value| element.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (from, to) = (list(from), list(to));
    for element in from.iter().chain(&to).map(name).collect::<BTreeSet<_>>() {
        let find = |list: &[Value]| list.iter().find(|candidate| name(candidate) == element).cloned();
        let path = format!("{path}[{element}]");
        match (find(&from), find(&to)) {
            (Some(a), Some(b)) => object(&path, Some(&a), Some(&b), shape, changes),
            (a, b) => leaf(&path, a.as_ref(), b.as_ref(), effect.unwrap_or(Effect::Replace), changes),
        }
    }
    let order = |list: &[Value]| list.iter().map(name).collect::<Vec<_>>();
    let (mut a, mut b) = (order(&from), order(&to));
    if a != b {
        a.sort();
        b.sort();
        if a == b {
            leaf(
                path,
                Some(&Value::from(order(&from))),
                Some(&Value::from(order(&to))),
                effect.unwrap_or(Effect::Replace),
                changes,
            );
        }
    }
}

fn leaf(path: &str, from: Option<&Value>, to: Option<&Value>, effect: Effect, changes: &mut Vec<Change>) {
    if from != to {
        changes.push(Change { path: path.to_owned(), from: from.cloned(), to: to.cloned(), effect });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(spec: &str) -> NodeConfig {
        NodeConfig { spec: serde_json::from_str(spec).unwrap(), ..NodeConfig::default() }
    }

    fn paths(from: &str, to: &str) -> Vec<(String, Effect)> {
        between(&config(from), &config(to)).into_iter().map(|change| (change.path, change.effect)).collect()
    }

    #[test]
    fn changes_have_path_and_effect() {
        assert_eq!(
            paths(
                r#"{"os": {"sysctl": {"a": "1", "b": "2"}}}"#,
                r#"{"os": {"sysctl": {"a": "1", "b": "3"}}, "kubelet": {"version": "1.33.0"}}"#
            ),
            [("spec.kubelet.version".to_owned(), Effect::Drain), ("spec.os.sysctl[b]".to_owned(), Effect::Reload)]
        );
        assert_eq!(paths(r#"{"kubelet": {"version": "1"}}"#, r#"{"kubelet": {"version": "1"}}"#), []);
    }

    #[test]
    fn list_elements_are_matched_by_key() {
        let from = r#"{"files": [{"path": "/a", "content": "x"}, {"path": "/b", "mode": "0600"}]}"#;
        let to = r#"{"files": [{"path": "/b", "mode": "0644"}, {"path": "/c"}]}"#;
        assert_eq!(
            paths(from, to),
            [
                ("spec.files[/a]".to_owned(), Effect::Reload),
                ("spec.files[/b].mode".to_owned(), Effect::None),
                ("spec.files[/c]".to_owned(), Effect::Reload),
            ]
        );
    }

    #[test]
    fn reordered_elements_are_one_change() {
        let changes =
            paths(r#"{"units": [{"name": "a"}, {"name": "b"}]}"#, r#"{"units": [{"name": "b"}, {"name": "a"}]}"#);
        assert_eq!(changes, [("spec.units".to_owned(), Effect::Restart)]);
    }

    #[test]
    fn unknown_fields_have_no_effect_and_are_reported() {
        let with = config(r#"{"os": {"color": "blue"}, "files": [{"path": "/a", "x": 1}]}"#);
        assert_eq!(paths("{}", r#"{"os": {"color": "blue"}}"#), [("spec.os.color".to_owned(), Effect::None)]);
        assert_eq!(with.unknown_fields(), ["spec.files[0].x", "spec.os.color"]);
    }

    #[test]
    fn highest_effect_is_the_most_disruptive_one() {
        let changes =
            between(&config("{}"), &config(r#"{"os": {"sysctl": {"a": "1"}}, "platform": {"hostName": "n"}}"#));
        assert_eq!(highest_effect(&changes), Effect::Replace);
        assert_eq!(highest_effect(&[]), Effect::None);
    }
}
