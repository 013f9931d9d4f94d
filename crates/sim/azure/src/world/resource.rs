//! A resource: the body that clients wrote, and the fields that Azure adds.

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
    /// Location, tags, sku, properties, …: as written, including hidden fields.
    pub(crate) body: Map<String, Value>,
    /// Incremented by each write. The ETag is derived from it.
    pub(crate) revision: u64,
    pub(crate) state: ProvisioningState,
    /// The operation that locks it.
    pub(crate) operation: Option<String>,
    pub(crate) created: Timestamp,
    pub(crate) unique_id: String,
    /// For a scale set the current revision of the model, for an instance the revision it was created from.
    #[serde(default)]
    pub(crate) model: u64,
    /// For a scale set the number of its next instance.
    #[serde(default)]
    pub(crate) next: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vm: Option<Vm>,
    /// For a disk, snapshot or image version its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<Disk>,
    /// The previous version. Kept only if a fault plan has stale reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<Box<Resource>>,
}

/// `provisioningState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProvisioningState {
    Creating,
    Updating,
    Deleting,
    Succeeded,
    Failed,
}

impl ProvisioningState {
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
    /// The value at a path of the body, such as `properties.storageProfile.osDisk`.
    pub(crate) fn at(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let mut value = self.body.get(parts.next()?)?;
        for part in parts {
            value = value.get(part)?;
        }
        (!value.is_null()).then_some(value)
    }

    /// The string at a path of the body.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.at(path).and_then(Value::as_str)
    }

    /// The object at a path of the body. Creates it if it is missing.
    pub(crate) fn object(&mut self, path: &str) -> &mut Map<String, Value> {
        path.split('.').fold(&mut self.body, |object, part| {
            let value = object.entry(part).or_insert_with(|| json!({}));
            if !value.is_object() {
                *value = json!({});
            }
            value.as_object_mut().expect("created above")
        })
    }

    pub(crate) fn location(&self) -> &str {
        self.text("location").unwrap_or_default()
    }

    /// The ETag of this revision.
    pub(crate) fn etag(&self) -> Option<String> {
        self.id.kind.has_etag().then(|| format!("\"{}\"", self.revision))
    }

    /// Id, name, type and body as clients see them, with the provisioning state.
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
    /// Creates a resource or replaces its body. `state` applies to an existing resource; a new one is `Creating`.
    pub(crate) fn put(&mut self, id: &ResourceId, body: Map<String, Value>, state: ProvisioningState) {
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
            state: ProvisioningState::Creating,
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

    /// Changes a resource and its ETag.
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

/// A time as Compute writes it: with an offset instead of `Z`, and up to seven digits of a second.
pub(crate) fn time_text(time: Timestamp) -> String {
    time.round(jiff::TimestampRound::new().smallest(jiff::Unit::Nanosecond).increment(100))
        .unwrap_or(time)
        .strftime("%Y-%m-%dT%H:%M:%S%.f+00:00")
        .to_string()
}

/// Merges a PATCH body as ARM does. ARM stores no nulls, and it replaces an image reference as a whole, because an image is named either
/// by id or by publisher, offer and SKU.
pub(crate) fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    kiln_types::json::merge_object(target, patch, &["imageReference"]);
    target.values_mut().for_each(strip_nulls);
}

/// Removes nulls at every depth, as ARM does before it stores a body.
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
    fn patch_merges_fields_and_replaces_an_image_reference() {
        let mut body =
            json!({"a": {"b": 1, "c": 2}, "imageReference": {"publisher": "P", "sku": "s"}, "tags": {"x": "1"}});
        let patch = json!({"a": {"b": 3}, "imageReference": {"id": "I", "sku": null}, "tags": {"x": null, "y": "2"}});
        merge(body.as_object_mut().expect("object"), patch.as_object().expect("object"));
        assert_eq!(body, json!({"a": {"b": 3, "c": 2}, "imageReference": {"id": "I"}, "tags": {"y": "2"}}));
    }
}
