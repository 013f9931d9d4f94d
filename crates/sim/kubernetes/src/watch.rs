//! Watches: what changed since a revision, as one line of JSON per change.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Call, Form};
use crate::error::{ApiError, Result};
use crate::list;
use crate::meta;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::show::View;
use crate::store::{Change, Object, Store};

/// How long a watch lasts when the client does not say: as long as the real one's shortest.
const LASTS: u64 = 1800;

/// A watch under way.
#[derive(Debug)]
pub(crate) struct Watch {
    view: View,
    namespace: Option<String>,
    selector: Selector,
    /// Everything up to here was sent.
    cursor: u64,
    /// Lines that are due before any change.
    first: Vec<u8>,
    /// Column definitions go with the first table only.
    columns: bool,
    /// The client takes bookmarks.
    bookmarks: bool,
    /// Nothing comes after an error.
    over: bool,
    /// Seconds until the server ends it.
    pub(crate) lasts: u64,
}

impl Watch {
    /// Starts a watch.
    pub(crate) fn start(
        store: &Store,
        call: &Call<'_>,
        resource: &'static Resource,
        (namespace, name): (Option<&str>, Option<&str>),
        now: Timestamp,
    ) -> Result<Self> {
        let selector = list::selector(call, resource, name)?;
        let asked = list::version(call)?;
        let lasts = call.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).unwrap_or(LASTS);
        let bookmarks = call.flag("allowWatchBookmarks");
        let stream = call.flag("sendInitialEvents");
        if stream && call.option("resourceVersionMatch") != "NotOlderThan" {
            return Err(ApiError::bad("resourceVersionMatch \"NotOlderThan\" is required with sendInitialEvents"));
        }
        let mut watch = Self {
            view: View::new(call, resource, now),
            namespace: namespace.map(str::to_owned),
            selector,
            cursor: asked.unwrap_or(0),
            first: Vec::new(),
            columns: true,
            bookmarks,
            over: false,
            lasts,
        };
        if stream || asked.unwrap_or(0) == 0 {
            // Without a revision, or with the one that means any, what is there comes first.
            watch.cursor = store.revision();
            for object in store.objects(resource.stored().sort, namespace) {
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

    /// The lines that are due.
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
        let sort = self.view.resource.stored().sort;
        let prefix = sort.resource().prefix(self.namespace.as_deref());
        let changes: Vec<Change> = store
            .since(self.cursor)
            .filter(|change| change.sort == sort && change.key.starts_with(&prefix))
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

    /// Whether the server has nothing more to say.
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.first.is_empty()
    }

    /// How far the client is, where it wants to know.
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
                // It left the selection: the client sees it as it knew it, dated by the change.
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
