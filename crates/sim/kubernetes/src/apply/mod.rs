//! Server-side apply of custom resources, and the managed fields that it needs. [`typed`] splits values by their schema, [`field_set`] has
//! the format of `managedFields`.

mod field_set;
mod typed;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::Call;
use crate::error::{ApiError, FieldError, Result};
use crate::meta;
use crate::resource::Resource;
use field_set::{Display, FieldSet, Path};
use typed::Difference;

/// Where a change comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) manager: String,
    pub(crate) api_version: String,
    pub(crate) status: bool,
    pub(crate) now: Timestamp,
}

impl Author {
    pub(crate) fn of_call(call: &Call<'_>, resource: &Resource, status: bool, now: Timestamp) -> Self {
        Self { manager: call.field_manager().to_owned(), api_version: resource.api_version(), status, now }
    }

    /// The field that a request to this endpoint does not change.
    fn ignored(&self, resource: &Resource) -> Option<&'static str> {
        match self.status {
            true => Some("spec"),
            false if !resource.subresources.is_empty() => Some("status"),
            false => None,
        }
    }
}

/// An entry of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    manager: String,
    operation: &'static str,
    api_version: String,
    subresource: &'static str,
    time: String,
    fields: FieldSet,
}

const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

impl Entry {
    fn new(author: &Author, operation: &'static str) -> Self {
        Self {
            manager: author.manager.clone(),
            operation,
            api_version: author.api_version.clone(),
            subresource: if author.status { "status" } else { "" },
            time: meta::time(author.now),
            fields: FieldSet::default(),
        }
    }

    fn is_same_manager(&self, other: &Self) -> bool {
        (&self.manager, self.operation, &self.api_version, self.subresource)
            == (&other.manager, other.operation, &other.api_version, other.subresource)
    }

    /// How messages name it.
    fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == UPDATE { format!("{text} using {}", self.api_version) } else { text }
    }
}

fn read(object: &Value) -> Vec<Entry> {
    let entry = |entry: &Value| Entry {
        manager: meta::text(entry, "/manager").to_owned(),
        operation: if meta::text(entry, "/operation") == APPLY { APPLY } else { UPDATE },
        api_version: meta::text(entry, "/apiVersion").to_owned(),
        subresource: if meta::text(entry, "/subresource") == "status" { "status" } else { "" },
        time: meta::text(entry, "/time").to_owned(),
        fields: FieldSet::from_json(&entry["fieldsV1"]),
    };
    meta::list(object, "/metadata/managedFields").iter().map(entry).collect()
}

/// Writes the entries in the server's order: applied ones first, then by time and name.
fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.fields.0.is_empty());
    entries.sort_by(|one, other| {
        let key = |entry: &Entry| {
            (entry.operation, entry.time.clone(), entry.manager.clone(), entry.api_version.clone(), entry.subresource)
        };
        key(one).cmp(&key(other))
    });
    let list: Vec<Value> = entries
        .into_iter()
        .map(|entry| {
            let mut value = json!({
                "manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version,
                "time": entry.time, "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_json(),
            });
            if !entry.subresource.is_empty() {
                value["subresource"] = json!(entry.subresource);
            }
            value
        })
        .collect();
    let metadata = meta::metadata(object);
    if list.is_empty() {
        metadata.remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), json!(list));
    }
}

/// Without managed fields, so that they do not count as a change.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    meta::metadata(&mut object).remove("managedFields");
    object
}

fn difference(schema: &Value, old: Option<&Value>, new: &Value) -> Difference {
    let empty = json!({"metadata": {}});
    let mut found = Difference::default();
    typed::compare(schema, (Some(old.unwrap_or(&empty)), Some(new)), &mut Vec::new(), &mut found);
    found
}

/// Records the fields that a create, update or patch changed in the managed fields of `new`.
pub(crate) fn track(schema: &Value, old: Option<&Value>, new: &mut Value, author: &Author) {
    let schema = typed::with_metadata(schema);
    let mut entries = old.map(read).unwrap_or_default();
    let old = old.map(bare);
    let Difference { mut set, removed } = difference(&schema, old.as_ref(), &bare(new));
    set.strip(None);
    let mut own = Entry::new(author, UPDATE);
    for entry in &mut entries {
        entry.fields.remove_all(&removed);
        if entry.is_same_manager(&own) {
            own.fields = std::mem::take(&mut entry.fields);
            if set.0.is_empty() {
                own.time.clone_from(&entry.time);
            }
        } else {
            entry.fields.remove_all(&set);
        }
    }
    own.fields.0.extend(set.0);
    entries.push(own);
    write(new, entries);
}

/// Merges an applied configuration into an object, or creates one from it. The result has its managed fields.
pub(crate) fn apply(
    schema: &Value,
    resource: &Resource,
    (live, config): (Option<&Value>, &Value),
    author: &Author,
    force: bool,
) -> Result<Value> {
    let schema = typed::with_metadata(schema);
    let mut config = config.clone();
    if let (Some(ignored), Some(fields)) = (author.ignored(resource), config.as_object_mut()) {
        fields.remove(ignored);
    }
    let mut entries = live.map(read).unwrap_or_default();
    let before = live.map(bare);
    if let Some(before) = before.as_ref().filter(|_| entries.is_empty()) {
        let author = Author { manager: "before-first-apply".to_owned(), status: false, ..author.clone() };
        let mut entry = Entry::new(&author, UPDATE);
        entry.fields = difference(&schema, None, before).set;
        entry.fields.strip(None);
        entries.push(entry);
    }
    let mut own = Entry::new(author, APPLY);
    typed::fields_of(&schema, &config, &mut Vec::new(), &mut own.fields);
    own.fields.strip(None);

    let mut merged = before.clone().unwrap_or_else(|| json!({}));
    typed::merge(&schema, &mut merged, &config);
    let changed = difference(&schema, before.as_ref(), &merged).set;
    let mut conflicts = Vec::new();
    let mut last = None;
    for entry in &mut entries {
        if entry.is_same_manager(&own) {
            last = Some((std::mem::take(&mut entry.fields), entry.time.clone()));
            continue;
        }
        for path in entry.fields.intersection(&changed) {
            if force {
                entry.fields.0.remove(&path);
            } else {
                conflicts.push((entry.describe(), path));
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    // Fields that this manager no longer applies, and that no other manager owns, are removed.
    let (last, time) = last.unwrap_or_default();
    let is_owned = |path: &Path| {
        own.fields.reaches(path) || entries.iter().any(|entry| !entry.fields.0.is_empty() && entry.fields.reaches(path))
    };
    for path in last.0.iter().filter(|path| !is_owned(path)) {
        typed::remove(&schema, &mut merged, path);
    }
    if last == own.fields && before.as_ref() == Some(&merged) {
        own.time = time;
    }
    entries.push(own);
    write(&mut merged, entries);
    Ok(merged)
}

fn conflict(conflicts: &[(String, Path)]) -> ApiError {
    let causes: Vec<FieldError> = conflicts
        .iter()
        .map(|(manager, path)| FieldError {
            reason: "FieldManagerConflict",
            field: Display(path).to_string(),
            message: format!("conflict with {manager}"),
        })
        .collect();
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        several => {
            let mut managers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for ((manager, _), cause) in conflicts.iter().zip(several) {
                managers.entry(manager).or_default().push(format!("- {}", cause.field));
            }
            let each: Vec<String> = managers
                .into_iter()
                .map(|(manager, paths)| format!("conflicts with {manager}:\n{}", paths.join("\n")))
                .collect();
            format!("Apply failed with {} conflicts: {}", several.len(), each.join("\n"))
        }
    };
    ApiError::apply_conflict(message, &causes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ObjectKind;

    fn author(manager: &str) -> Author {
        let now = Timestamp::from_second(0).unwrap();
        Author { manager: manager.to_owned(), api_version: "a.io/v1".to_owned(), status: false, now }
    }

    fn schema() -> Value {
        json!({"properties": {"spec": {"properties": {
            "a": {"type": "integer"}, "b": {"type": "integer"},
            "parts": {
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"properties": {"name": {}, "n": {}}},
            },
            "whole": {"x-kubernetes-map-type": "atomic"}, "list": {"type": "array"},
        }}}})
    }

    fn applied(live: Option<&Value>, manager: &str, spec: &Value, force: bool) -> Result<Value> {
        let config = json!({"apiVersion": "a.io/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
        apply(&schema(), ObjectKind::ConfigMap.resource(), (live, &config), &author(manager), force)
    }

    #[test]
    fn element_shared_by_two_managers_is_removed_with_the_last_one() {
        let one = applied(None, "one", &json!({"parts": [{"name": "x", "n": 1}]}), false).unwrap();
        let both = applied(Some(&one), "two", &json!({"parts": [{"name": "x"}, {"name": "y"}]}), false).unwrap();
        let without = applied(Some(&both), "one", &json!({"parts": []}), false).unwrap();
        assert_eq!(without["spec"], json!({"parts": [{"name": "x"}, {"name": "y"}]}));
        let none = applied(Some(&without), "two", &json!({"a": 1}), false).unwrap();
        assert_eq!(none["spec"], json!({"a": 1}));
    }

    #[test]
    fn equal_values_are_shared_and_atomic_values_conflict_as_a_whole() {
        let one = applied(None, "one", &json!({"a": 1, "whole": {"x": 1}, "list": [1]}), false).unwrap();
        let both = applied(Some(&one), "two", &json!({"a": 1}), false).unwrap();
        assert_eq!(both["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
        let error = applied(Some(&both), "two", &json!({"whole": {"y": 1}}), false).unwrap_err();
        assert_eq!(error.status()["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.whole");
        let forced = applied(Some(&both), "two", &json!({"whole": {"y": 1}}), true).unwrap();
        assert_eq!(forced["spec"], json!({"a": 1, "whole": {"y": 1}, "list": [1]}));
    }

    #[test]
    fn update_takes_ownership_and_removed_fields_have_no_owner() {
        let one = applied(None, "one", &json!({"a": 1, "b": 2}), false).unwrap();
        let mut new = one.clone();
        new["spec"] = json!({"a": 5});
        track(&schema(), Some(&one), &mut new, &author("editor"));
        let entries = read(&new);
        let owned = |at: usize| (entries[at].manager.as_str(), entries[at].fields.to_json());
        assert_eq!(entries.len(), 1);
        assert_eq!(owned(0), ("editor", json!({"f:spec": {"f:a": {}}})));
    }
}
