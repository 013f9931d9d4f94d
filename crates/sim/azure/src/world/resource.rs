//! A resource: the body that clients wrote, and what Azure adds to it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::World;
use super::contents::Disk;
use super::vm::Vm;
use crate::arm::id::ResourceId;

/// A resource of any type.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Resource {
    pub(crate) id: ResourceId,
    /// Location, tags, sku, properties, …: as written, hidden fields included.
    pub(crate) body: Map<String, Value>,
    /// Changes with every write; the ETag is made of it.
    pub(crate) revision: u64,
    pub(crate) state: State,
    /// The operation that holds it.
    pub(crate) operation: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) unique_id: String,
    /// A scale set: which revision of the model is current. An instance: which one it was made from.
    #[serde(default)]
    pub(crate) model: u64,
    /// A scale set: the id of its next instance.
    #[serde(default)]
    pub(crate) next: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vm: Option<Vm>,
    /// A disk, snapshot or image version: what is on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<Disk>,
    /// What it was before the last write, kept only while a fault plan asks for stale reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Box<Resource>>,
}

/// `provisioningState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    Creating,
    Updating,
    Deleting,
    Succeeded,
    Failed,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Updating => "Updating",
            Self::Deleting => "Deleting",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl Resource {
    /// The value at a path of the body, `properties.storageProfile.osDisk`.
    pub(crate) fn at(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let mut value = self.body.get(parts.next()?)?;
        for part in parts {
            value = value.get(part)?;
        }
        (!value.is_null()).then_some(value)
    }

    /// A text of the body.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path).and_then(Value::as_str)
    }

    /// The object at a path, made where it is missing.
    pub(crate) fn object(&mut self, path: &str) -> &mut Map<String, Value> {
        path.split('.').fold(&mut self.body, |object, part| {
            let value = object.entry(part).or_insert_with(|| json!({}));
            if !value.is_object() {
                *value = json!({});
            }
            value.as_object_mut().expect("made an object above")
        })
    }

    pub(crate) fn location(&self) -> &str {
        self.text("location").unwrap_or_default()
    }

    /// The ETag of this revision.
    pub(crate) fn etag(&self) -> Option<String> {
        self.id.kind.has_etag().then(|| format!("\"{}\"", self.revision))
    }

    /// Id, name, type and body as clients read them, with the state among the properties.
    pub(crate) fn envelope(&self) -> Map<String, Value> {
        let mut view = self.body.clone();
        view.insert("id".to_owned(), json!(self.id.to_string()));
        view.insert("name".to_owned(), json!(self.id.name()));
        view.insert("type".to_owned(), json!(self.id.kind.full()));
        if let Some(etag) = self.etag() {
            view.insert("etag".to_owned(), json!(etag));
        }
        let properties = view.entry("properties").or_insert_with(|| json!({}));
        properties["provisioningState"] = json!(self.state.word());
        view
    }
}

impl World {
    /// Creates a resource or replaces its body. A new one is `Creating`, whatever `state` says of an existing one.
    pub(crate) fn put(&mut self, id: &ResourceId, body: Map<String, Value>, state: State) {
        let key = id.key();
        if self.resources.get(&key).is_some() {
            return self.touch(&key, |resource| {
                resource.body = body;
                resource.state = state;
            });
        }
        let resource = Resource {
            id: id.clone(),
            body,
            revision: 1,
            state: State::Creating,
            operation: None,
            created: self.now,
            unique_id: self.meta.ids.uuid(),
            model: 0,
            next: 0,
            vm: None,
            disk: None,
            previous: None,
        };
        self.resources.insert(key, resource);
    }

    /// Changes a resource: its ETag changes with it.
    pub(crate) fn touch(&mut self, key: &str, change: impl FnOnce(&mut Resource)) {
        let keep = self.keep_previous;
        let Some(resource) = self.resources.get_mut(key) else { return };
        resource.previous = None;
        let previous = keep.then(|| Box::new(resource.clone()));
        change(resource);
        resource.revision += 1;
        resource.previous = previous;
    }
}

/// Merges as ARM's PATCH does: objects leaf by leaf, `null` removes, anything else replaces.
pub(crate) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (value, target.get_mut(key)) {
            (Value::Null, _) => {
                target.remove(key);
            }
            // An image is named by id or by publisher, offer and sku: a new reference replaces the old one whole.
            (Value::Object(patch), Some(Value::Object(object))) if key != "imageReference" => merge(object, patch),
            (value, _) => {
                let mut value = value.clone();
                strip_nulls(&mut value);
                target.insert(key.clone(), value);
            }
        }
    }
}

/// ARM does not store nulls.
pub(crate) fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_its_leaves_and_replaces_an_image_reference_whole() {
        let mut body =
            json!({"a": {"b": 1, "c": 2}, "imageReference": {"publisher": "P", "sku": "s"}, "tags": {"x": "1"}});
        let patch = json!({"a": {"b": 3}, "imageReference": {"id": "I", "sku": null}, "tags": {"x": null, "y": "2"}});
        merge(body.as_object_mut().expect("object"), patch.as_object().expect("object"));
        assert_eq!(body, json!({"a": {"b": 3, "c": 2}, "imageReference": {"id": "I"}, "tags": {"y": "2"}}));
    }
}
