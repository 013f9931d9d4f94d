//! Watches: the changes since a revision, one line of JSON per change.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Call, Form};
use crate::error::{ApiError, FieldError, Result};
use crate::list;
use crate::meta;
use crate::resource::Resource;
use crate::response::View;
use crate::selector::Selector;
use crate::store::{Change, Object, Store};

/// The default duration in seconds: the real server's minimum.
const DEFAULT_SECONDS: u64 = 1800;

/// The state of a watch.
#[derive(Debug)]
pub(crate) struct Watch {
    view: View,
    namespace: Option<String>,
    selector: Selector,
    /// Everything up to this revision was sent.
    cursor: u64,
    /// Lines to send before any change.
    first: Vec<u8>,
    /// Whether the next table needs column definitions.
    columns: bool,
    /// Whether the client accepts bookmarks.
    bookmarks: bool,
    /// Set after an error.
    over: bool,
    /// Seconds until the server ends the watch.
    pub(crate) lasts: u64,
}

impl Watch {
    pub(crate) fn start(
        store: &Store,
        call: &Call<'_>,
        resource: &'static Resource,
        (namespace, name): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Result<Self> {
        let selector = list::selector(call, resource, name)?;
        let requested = list::version(call)?;
        let lasts = call.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_SECONDS);
        let bookmarks = call.flag("allowWatchBookmarks");
        let stream = call.flag("sendInitialEvents");
        if stream && call.option("resourceVersionMatch") != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(ApiError::invalid_options("ListOptions", &FieldError::forbidden("resourceVersionMatch", why)));
        }
        let mut watch = Self {
            view: View::new(store, call, resource, now),
            namespace: namespace.map(str::to_owned),
            selector,
            cursor: requested.unwrap_or(0),
            first: Vec::new(),
            columns: true,
            bookmarks,
            over: false,
            lasts,
        };
        if stream || requested.unwrap_or(0) == 0 {
            // Without a revision, or with 0, the existing objects come first.
            watch.cursor = store.revision();
            for object in store.objects(resource.stored().object_kind, namespace) {
                if watch.selector.matches(&object) {
                    let line = watch.line("ADDED", &object);
                    watch.first.extend(line);
                }
            }
            if stream && bookmarks {
                let line = watch.bookmark_line(true);
                watch.first.extend(line);
            }
        } else if watch.cursor < store.floor() {
            let error = ApiError::expired(&format!("too old resource version: {} ({})", watch.cursor, store.floor()));
            watch.first.extend(event_line("ERROR", &error.status()));
            watch.over = true;
        }
        Ok(watch)
    }

    /// The lines to send now.
    pub(crate) fn due(&mut self, store: &Store, now: Timestamp) -> Vec<u8> {
        self.view.now = now;
        let mut lines = std::mem::take(&mut self.first);
        if self.over {
            return lines;
        }
        if self.cursor < store.floor() {
            let error = ApiError::expired(&format!("too old resource version: {} ({})", self.cursor, store.floor()));
            lines.extend(event_line("ERROR", &error.status()));
            self.over = true;
            return lines;
        }
        let object_kind = self.view.resource.stored().object_kind;
        let prefix = object_kind.prefix(self.namespace.as_deref());
        let changes: Vec<Change> = store
            .since(self.cursor)
            .filter(|change| change.object_kind == object_kind && change.key.starts_with(&prefix))
            .cloned()
            .collect();
        for change in changes {
            if let Some(line) = self.change(&change) {
                lines.extend(line);
            }
        }
        self.cursor = self.cursor.max(store.revision());
        lines
    }

    /// Whether the watch has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.first.is_empty()
    }

    /// A bookmark, if the client accepts them.
    pub(crate) fn bookmark(&mut self) -> Vec<u8> {
        if self.bookmarks && !self.over { self.bookmark_line(false) } else { Vec::new() }
    }

    fn change(&mut self, change: &Change) -> Option<Vec<u8>> {
        let was = change.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let is = !change.gone && self.selector.matches(&change.object);
        match (was, is) {
            (false, true) => Some(self.line("ADDED", &change.object)),
            (true, true) => Some(self.line("MODIFIED", &change.object)),
            (true, false) if change.gone => Some(self.line("DELETED", &change.object)),
            (true, false) => {
                // The object no longer matches the selector: the client gets its previous state with the new revision.
                let mut last = Value::clone(change.before.as_ref()?);
                meta::set_resource_version(&mut last, change.revision);
                Some(self.line("DELETED", &Object::new(last)))
            }
            (false, false) => None,
        }
    }

    fn line(&mut self, kind: &str, object: &Object) -> Vec<u8> {
        if self.view.form == Form::Table {
            let mut table = self.view.table(std::slice::from_ref(object), std::mem::take(&mut self.columns));
            table["metadata"] = json!({"resourceVersion": meta::resource_version(object)});
            return event_line(kind, &table);
        }
        event_line(kind, &self.view.object(object))
    }

    fn bookmark_line(&self, ends_first: bool) -> Vec<u8> {
        let resource = self.view.resource;
        let mut object = json!({
            "kind": resource.kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": self.cursor.to_string(), "creationTimestamp": null},
        });
        if self.view.form == Form::Metadata {
            object["kind"] = json!("PartialObjectMetadata");
            object["apiVersion"] = json!("meta.k8s.io/v1");
        }
        if self.view.form == Form::Table {
            object = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null, "rows": [],
                "metadata": {"resourceVersion": self.cursor.to_string()},
            });
        }
        if ends_first {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        event_line("BOOKMARK", &object)
    }
}

fn event_line(kind: &str, object: &Value) -> Vec<u8> {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into_bytes()
}
