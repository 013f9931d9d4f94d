//! Responses: objects, lists, tables and metadata, in the requested representation.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, WARNING};
use http::{HeaderValue, Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Call, Form};
use crate::custom::{self, Definition};
use crate::delete::DeleteOutcome;
use crate::list::List;
use crate::resource::{ObjectKind, Resource};
use crate::store::{Object, Store};
use crate::write::WriteOutcome;
use crate::{event, meta, table};

/// A JSON response.
pub(crate) fn json(code: StatusCode, body: &Value) -> Response<Bytes> {
    bytes(code, body.to_string().into_bytes())
}

fn bytes(code: StatusCode, body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The representation that one request asks for.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) resource: &'static Resource,
    /// The definition of a custom resource.
    definition: Option<Arc<Definition>>,
    pub(crate) form: Form,
    include: table::Include,
    pub(crate) now: Timestamp,
}

impl View {
    pub(crate) fn new(store: &Store, call: &Call<'_>, resource: &'static Resource, now: Timestamp) -> Self {
        let definition = store.definitions().of(resource).cloned();
        let include = table::Include::parse(call.option("includeObject"));
        Self { resource, definition, form: call.form(), include, now }
    }

    pub(crate) fn object(&self, object: &Object) -> Value {
        match self.form {
            Form::Plain if self.resource.object_kind == ObjectKind::NewEvent => {
                event::from_stored(self.resource, Value::clone(object))
            }
            Form::Plain if self.resource.is_custom() => custom::to_version(self.resource, Value::clone(object)),
            Form::Plain => Value::clone(object),
            Form::Metadata => table::metadata_of(object),
            Form::Table => {
                let mut whole = self.table(std::slice::from_ref(object), true);
                whole["metadata"] = json!({"resourceVersion": meta::resource_version(object)});
                whole
            }
        }
    }

    /// A table with a row per object.
    pub(crate) fn table(&self, objects: &[Object], columns: bool) -> Value {
        let object_kind = self.resource.stored().object_kind;
        table::table((object_kind, self.definition.as_deref()), objects, self.include, columns, self.now)
    }

    pub(crate) fn written(&self, written: &WriteOutcome) -> Response<Bytes> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = json(code, &self.object(&written.object));
        for warning in &written.warnings {
            let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().append(WARNING, value);
            }
        }
        response
    }

    pub(crate) fn deleted(&self, deleted: &DeleteOutcome) -> Response<Bytes> {
        match deleted {
            // A deleted pod is returned once more, other objects are reported by a `Status`.
            DeleteOutcome::Gone(object) if self.resource.object_kind != ObjectKind::Pod => json(
                StatusCode::OK,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details(self.resource, object),
                }),
            ),
            DeleteOutcome::Gone(object) | DeleteOutcome::Pending(object) => json(StatusCode::OK, &self.object(object)),
        }
    }

    pub(crate) fn list(&self, list: &List) -> Response<Bytes> {
        let mut metadata = json!({"resourceVersion": list.revision.to_string()});
        if let Some(next) = &list.next {
            metadata["continue"] = json!(next);
        }
        if let Some(remaining) = list.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        if self.form == Form::Table {
            let mut table = self.table(&list.items, true);
            table["metadata"] = metadata;
            return json(StatusCode::OK, &table);
        }
        let (kind, version) = match self.form {
            Form::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
            _ => (self.resource.list_kind(), self.resource.api_version()),
        };
        let mut body =
            format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#).into_bytes();
        for (index, item) in list.items.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            self.item(item, &mut body);
        }
        body.extend_from_slice(b"]}");
        bytes(StatusCode::OK, body)
    }

    /// An item of a list has neither kind nor version, except a custom resource, and in a list of metadata.
    fn item(&self, item: &Object, into: &mut Vec<u8>) {
        let write = "writing to memory succeeds";
        if self.form == Form::Plain
            && self.resource.object_kind != ObjectKind::NewEvent
            && !self.resource.is_custom()
            && let Some(fields) = item.as_object()
        {
            into.push(b'{');
            let mut first = true;
            for (key, value) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion")) {
                if !std::mem::take(&mut first) {
                    into.push(b',');
                }
                serde_json::to_writer(&mut *into, key).expect(write);
                into.push(b':');
                serde_json::to_writer(&mut *into, value).expect(write);
            }
            into.push(b'}');
            return;
        }
        serde_json::to_writer(into, &self.object(item)).expect(write);
    }
}

/// The `details` of a `Status` about an object.
fn details(resource: &Resource, object: &Value) -> Value {
    let mut details = json!({"name": meta::name(object), "kind": resource.plural, "uid": meta::uid(object)});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    details
}

/// A successful `Status` without details.
pub(crate) fn success(code: StatusCode) -> Response<Bytes> {
    json(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16()}),
    )
}
