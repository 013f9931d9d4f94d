//! Label and field selectors.

use serde_json::Value;

use crate::error::{ApiError, Result};
use crate::meta;
use crate::resource::{ObjectKind, Resource};

/// The selector of a list, a watch or a budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    path: String,
    equal: bool,
    value: String,
}

impl Selector {
    /// Parses the query parameters `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self> {
        Ok(Self { labels: requirements(labels)?, fields: field_terms(resource, fields)? })
    }

    /// Also requires this name.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.fields.push(Field { path: "metadata.name".to_owned(), equal: true, value: name.to_owned() });
        self
    }

    /// Reads a `LabelSelector` object. An empty one selects everything, a missing one nothing.
    pub(crate) fn from_object(selector: &Value) -> Option<Self> {
        let object = selector.as_object()?;
        let mut labels = Vec::new();
        if let Some(pairs) = object.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in pairs {
                let value = value.as_str().unwrap_or_default().to_owned();
                labels.push(Requirement { key: key.clone(), test: Test::In(vec![value]) });
            }
        }
        for expression in meta::list(selector, "/matchExpressions") {
            let values =
                || meta::list(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            let test = match meta::text(expression, "/operator") {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Missing,
                _ => return None,
            };
            labels.push(Requirement { key: meta::text(expression, "/key").to_owned(), test });
        }
        Some(Self { labels, fields: Vec::new() })
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|requirement| requirement.is_met(meta::label(object, &requirement.key)))
            && self.fields.iter().all(|field| (value_of(object, &field.path) == field.value) == field.equal)
    }
}

impl Requirement {
    fn is_met(&self, value: Option<&str>) -> bool {
        let is_one = |list: &[String]| value.is_some_and(|value| list.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(list) => is_one(list),
            Test::NotIn(list) => !is_one(list),
            Test::Above(limit) => number().is_some_and(|number| number > *limit),
            Test::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

/// The value of a field for comparison: a text, empty if it is missing.
fn value_of(object: &Value, path: &str) -> String {
    let pointer = match path {
        "source" => "/source/component".to_owned(),
        "name" => "/metadata/name".to_owned(),
        path => format!("/{}", path.replacen("regarding.", "involvedObject.", 1).replace('.', "/")),
    };
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

/// The supported fields, besides name and namespace.
fn known_fields(object_kind: ObjectKind) -> &'static [&'static str] {
    match object_kind {
        ObjectKind::Pod => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ObjectKind::Node => &["spec.unschedulable"],
        ObjectKind::Namespace => &["status.phase", "name"],
        ObjectKind::Secret => &["type"],
        ObjectKind::Service => &["spec.clusterIP", "spec.type"],
        ObjectKind::ReplicaSet => &["status.replicas"],
        ObjectKind::Event => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ObjectKind::NewEvent => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ObjectKind::ConfigMap
        | ObjectKind::Lease
        | ObjectKind::Budget
        | ObjectKind::DaemonSet
        | ObjectKind::VolumeAttachment
        | ObjectKind::Definition
        | ObjectKind::Custom(_) => &[],
    }
}

fn field_terms(resource: &Resource, text: &str) -> Result<Vec<Field>> {
    let mut terms = Vec::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (path, equal, value) = if let Some((path, value)) = term.split_once("!=") {
            (path, false, value)
        } else if let Some((path, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            (path, true, value)
        } else {
            return Err(ApiError::bad(format!("invalid selector: '{text}'; can't understand '{term}'")));
        };
        let known = matches!(path, "metadata.name" | "metadata.namespace")
            || known_fields(resource.object_kind).contains(&path)
            || resource.selectable.contains(&path);
        if !known {
            return Err(ApiError::bad(format!("field label not supported: {path}")));
        }
        terms.push(Field { path: path.to_owned(), equal, value: value.to_owned() });
    }
    Ok(terms)
}

fn requirements(text: &str) -> Result<Vec<Requirement>> {
    let invalid = || ApiError::bad(format!("unable to parse requirement: cannot understand the selector `{text}`"));
    let mut parsed = Vec::new();
    for term in split_terms(text) {
        let term = term.trim();
        if term.is_empty() {
            continue;
        }
        let set = |rest: &str| -> Option<Vec<String>> {
            let content = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
            Some(content.split(',').map(|value| value.trim().to_owned()).collect())
        };
        let requirement = |key: &str, test| Requirement { key: key.trim().to_owned(), test };
        let one = if let Some(key) = term.strip_prefix('!') {
            requirement(key, Test::Missing)
        } else if let Some((key, value)) = term.split_once("!=") {
            requirement(key, Test::NotIn(vec![value.trim().to_owned()]))
        } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
            requirement(key, Test::In(vec![value.trim().to_owned()]))
        } else if let Some((key, rest)) = term
            .split_once(" notin ")
            .or_else(|| term.split_once(" notin(").map(|(key, _)| (key, &term[key.len() + 6..])))
        {
            requirement(key, Test::NotIn(set(rest).ok_or_else(invalid)?))
        } else if let Some((key, rest)) =
            term.split_once(" in ").or_else(|| term.split_once(" in(").map(|(key, _)| (key, &term[key.len() + 3..])))
        {
            requirement(key, Test::In(set(rest).ok_or_else(invalid)?))
        } else if let Some((key, value)) = term.split_once('>') {
            requirement(key, Test::Above(value.trim().parse().map_err(|_| invalid())?))
        } else if let Some((key, value)) = term.split_once('<') {
            requirement(key, Test::Below(value.trim().parse().map_err(|_| invalid())?))
        } else {
            requirement(term, Test::Exists)
        };
        if !is_label_key(&one.key) {
            return Err(invalid());
        }
        parsed.push(one);
    }
    Ok(parsed)
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut from, mut depth) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[from..]);
    terms
}

fn is_label_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|character| character.is_ascii_alphanumeric() || "-_./".contains(character))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by_labels(selector: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "3", "example.com/x": ""}}});
        Selector::parse(ObjectKind::Pod.resource(), selector, "").unwrap().matches(&object)
    }

    #[test]
    fn labels_are_selected_by_equality_sets_and_presence() {
        for matching in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "other!=x",
            "app in (db, web)",
            "app in (web),tier notin (1,2)",
            "app in(web)",
            "example.com/x",
            "!other",
            "tier>2,tier<4",
        ] {
            assert!(by_labels(matching), "{matching}");
        }
        for other in
            ["app=db", "app!=web", "other in (x)", "app notin (web)", "!app", "other", "tier>3", "app=web,tier=4"]
        {
            assert!(!by_labels(other), "{other}");
        }
        for bad in ["app in web", "=x", "a b", "tier>x"] {
            assert!(Selector::parse(ObjectKind::Pod.resource(), bad, "").is_err(), "{bad}");
        }
    }

    #[test]
    fn only_supported_fields_can_be_selected() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let select = |fields| Selector::parse(ObjectKind::Pod.resource(), "", fields);
        assert!(select("spec.nodeName=n,status.phase!=Succeeded,status.phase!=Failed").unwrap().matches(&pod));
        assert!(!select("spec.nodeName=").unwrap().matches(&pod));
        assert!(select("spec.hostNetwork=false").unwrap().matches(&pod));
        let error = select("spec.nope=1").unwrap_err();
        assert_eq!(error.status()["message"], "field label not supported: spec.nope");
        assert!(
            Selector::parse(ObjectKind::Node.resource(), "", "spec.unschedulable=false").unwrap().matches(&json!({}))
        );
        let event = json!({"involvedObject": {"name": "n"}});
        assert!(Selector::parse(ObjectKind::NewEvent.resource(), "", "regarding.name=n").unwrap().matches(&event));
    }

    #[test]
    fn selector_objects_match_like_text_and_a_missing_one_selects_nothing() {
        let pod = json!({"metadata": {"labels": {"app": "web"}}});
        let select = |selector: Value| Selector::from_object(&selector).is_some_and(|selector| selector.matches(&pod));
        assert!(select(json!({})));
        assert!(select(json!({"matchLabels": {"app": "web"}})));
        assert!(!select(json!({"matchLabels": {"app": "db"}})));
        assert!(select(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})));
        assert!(!select(json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})));
        assert!(!select(Value::Null));
    }
}
