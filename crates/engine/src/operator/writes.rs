//! Writes to the API server. Each one has the revision of the object that was read as its precondition, and its response is stored.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kiln_kubernetes::{Cluster, Error, EventKind, EventText};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::OperatorOptions;
use super::event::OperatorEvent;
use super::metrics::Metrics;
use super::store::{Store, Stored};
use super::stores::Stores;

/// The name of the operator in `metadata.managedFields`.
pub(super) const FIELD_MANAGER: &str = "kiln-operator";

/// What all parts of the operator work with.
pub(super) struct Shared {
    pub(super) cluster: Cluster,
    pub(super) options: OperatorOptions,
    pub(super) stores: Arc<Stores>,
    pub(super) metrics: Arc<Metrics>,
}

/// A kind that the operator writes.
pub(super) trait Written:
    Stored + Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned + Serialize
{
}

impl<K> Written for K where
    K: Stored + Resource<Scope = ClusterResourceScope> + Clone + Debug + DeserializeOwned + Serialize
{
}

impl Shared {
    /// Creates an object. One that exists already is not an error: the watch shows it soon.
    pub(super) async fn create<K: Written>(&self, store: &Store<K>, object: &K) -> Result<(), Error> {
        let action = format!("create {} `{}`", K::kind(&()), name(object));
        let api: Api<K> = Api::all(self.cluster.client().clone());
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.count::<K>();
        match self.cluster.send(&action, api.create(&params, object)).await {
            Ok(created) => {
                self.stored(store, created);
                Ok(())
            }
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object. One that does not exist is not an error.
    pub(super) async fn delete<K: Written>(&self, object: &K) -> Result<(), Error> {
        let action = format!("delete {} `{}`", K::kind(&()), name(object));
        let api: Api<K> = Api::all(self.cluster.client().clone());
        self.count::<K>();
        match self.cluster.send(&action, api.delete(name(object), &DeleteParams::default())).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Changes an object with a merge patch, unless it changed since it was read.
    pub(super) async fn patch<K: Written>(&self, store: &Store<K>, object: &K, patch: Value) -> Result<K, Error> {
        let action = format!("change {} `{}`", K::kind(&()), name(object));
        let api: Api<K> = Api::all(self.cluster.client().clone());
        let patch = Patch::Merge(conditional(object, patch));
        self.count::<K>();
        let written = self.cluster.send(&action, api.patch(name(object), &params(), &patch)).await?;
        self.stored(store, written.clone());
        Ok(written)
    }

    /// Writes a status, unless it is the same or the object changed since it was read. Returns the new object if it was written.
    pub(super) async fn update_status<K: Written, S: Serialize>(
        &self,
        store: &Store<K>,
        object: &K,
        old: Option<&S>,
        new: &S,
    ) -> Result<Option<K>, Error> {
        let Some(status) = merge_diff(&json!(old), &json!(new)) else { return Ok(None) };
        let action = format!("report the status of {} `{}`", K::kind(&()), name(object));
        let api: Api<K> = Api::all(self.cluster.client().clone());
        let patch = Patch::Merge(conditional(object, json!({"status": status})));
        self.count::<K>();
        let written = self.cluster.send(&action, api.patch_status(name(object), &params(), &patch)).await?;
        self.stored(store, written.clone());
        Ok(Some(written))
    }

    /// Records an Event on an object and in the log. Events are best effort: an error is only reported.
    pub(super) async fn notice<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        warning: bool,
        reason: &str,
        message: &str,
    ) {
        let kind = K::kind(&());
        let about = format!("{kind} `{}`", name(object));
        let notice = OperatorEvent::Notice {
            object: about.clone(),
            warning,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        (self.options.report)(&notice);
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(kind.into_owned()),
            name: object.meta().name.clone(),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        };
        let event = EventText {
            kind: if warning { EventKind::Warning } else { EventKind::Normal },
            action: "Reconcile",
            reason,
            note: message,
        };
        self.metrics.add("kiln_operator_writes_total", &["events"], 1.0);
        if let Err(error) = self.cluster.record_event_about(reference, &self.options.identity, &event).await {
            self.failed(&format!("record an event on {about}"), &error);
        }
    }

    /// Reports an error.
    pub(super) fn failed(&self, what: &str, error: &Error) {
        let error = kiln_types::error_chain::to_line(error);
        (self.options.report)(&OperatorEvent::Failed { what: what.to_owned(), error });
    }

    fn count<K: Resource<DynamicType = ()>>(&self) {
        self.metrics.add("kiln_operator_writes_total", &[&K::plural(&())], 1.0);
    }

    fn stored<K: Written>(&self, store: &Store<K>, object: K) {
        if store.written(object) {
            self.stores.changed.notify_one();
        }
    }
}

fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// Adds the revision that was read: the server rejects the patch if the object has changed since.
fn conditional<K: Resource>(object: &K, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(object.meta().resource_version);
    patch
}

/// The merge patch from one value to another; `None` if they are equal.
pub(super) fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for (key, value) in new {
                let change = old.get(key).map_or_else(|| Some(value.clone()), |old| merge_diff(old, value));
                patch.extend(change.map(|change| (key.clone(), change)));
            }
            let removed = old.keys().filter(|key| !new.contains_key(*key));
            patch.extend(removed.map(|key| (key.clone(), Value::Null)));
            Some(Value::Object(patch))
        }
        (_, new) => Some(new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patch_contains_only_what_differs() {
        let old = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2], "gone": true});
        let new = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1], "new": {"x": 1}});
        assert_eq!(merge_diff(&old, &new), Some(json!({"b": {"d": 4}, "e": [1], "gone": null, "new": {"x": 1}})));
        assert_eq!(merge_diff(&old, &old), None);
        assert_eq!(merge_diff(&Value::Null, &new), Some(new));
    }
}
