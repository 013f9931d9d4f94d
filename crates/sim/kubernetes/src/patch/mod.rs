//! PATCH in Kubernetes' four formats. Strategic merge patches are for built-in kinds, server-side apply is for custom resources.

mod strategic;

use jiff::Timestamp;
use serde_json::Value;

use crate::apply::{self, Author};
use crate::call::Call;
use crate::error::{ApiError, FieldError, Result};
use crate::resource::{ObjectKind, Resource};
use crate::store::Store;
use crate::write::{self, Fields, WriteOutcome};
use crate::{custom, event, meta, strategy};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn patch(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    (namespace, name): (Option<&str>, &str),
    status: bool,
    now: Timestamp,
) -> Result<WriteOutcome> {
    // The content type is checked before the object's existence.
    let accepted = if resource.is_custom() { [JSON, MERGE, APPLY] } else { [JSON, MERGE, STRATEGIC] };
    if !accepted.contains(&call.content_type()) {
        return Err(ApiError::media_type(&accepted));
    }
    let author = Author::of_call(call, resource, status, now);
    if call.content_type() == APPLY {
        return server_side_apply(store, call, resource, (namespace, name), author);
    }
    let stored = resource.stored();
    let old = store
        .get(stored, namespace.unwrap_or_default(), name)
        .cloned()
        .ok_or_else(|| ApiError::not_found(stored, name))?;
    let mut object = event::from_stored(resource, Value::clone(&old));
    if resource.is_custom() {
        object = custom::to_version(resource, object);
    }
    merge(call, resource.object_kind, &mut object)?;
    let (mut object, warnings) = write::decode(store, call, resource, object)?;
    write::set_location(&mut object, namespace, Some(name))?;
    let object = write::replace(store, stored, &old, object, &Fields::Track(author), call.dry_run()?)?;
    Ok(WriteOutcome { object, created: false, warnings })
}

/// Applies a configuration, and creates a missing object.
fn server_side_apply(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    (namespace, name): (Option<&str>, &str),
    author: Author,
) -> Result<WriteOutcome> {
    if call.option("fieldManager").is_empty() {
        let cause = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_options("PatchOptions", &cause));
    }
    let Some(definition) = store.definitions().of(resource).cloned() else {
        return Err(ApiError::no_such_path());
    };
    let unreadable = |problem: String| ApiError::bad(format!("error decoding YAML: {problem}"));
    let text = std::str::from_utf8(call.body()).map_err(|error| unreadable(error.to_string()))?;
    let mut config: Value = serde_saphyr::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    if (meta::text(&config, "/apiVersion"), meta::text(&config, "/kind")) != (&*resource.api_version(), resource.kind) {
        let (version, kind) = (meta::text(&config, "/apiVersion"), meta::text(&config, "/kind"));
        return Err(ApiError::bad(format!("invalid object type: {version}, Kind={kind}")));
    }
    if !meta::list(&config, "/metadata/managedFields").is_empty() {
        return Err(ApiError::bad("metadata.managedFields must be nil"));
    }
    write::set_location(&mut config, namespace, Some(name))?;
    // Defaults have no owner, so the configuration is merged without them.
    let mut known = config.clone();
    if let Some(unknown) = definition.normalize(&mut known).first() {
        return Err(ApiError::without_reason(&format!(
            "failed to create typed patch object ({}/{name}; {}, Kind={}): .{unknown}: field not declared in schema",
            namespace.unwrap_or_default(),
            resource.api_version(),
            resource.kind
        )));
    }
    let old = store.get(resource, namespace.unwrap_or_default(), name).cloned();
    let live = old.as_ref().map(|old| custom::to_version(resource, Value::clone(old)));
    let mut object = apply::apply(&definition.schema, resource, (live.as_ref(), &config), &author, call.flag("force"))?;
    let managed = object["metadata"]["managedFields"].clone();
    let (merged, warnings) = write::decode(store, call, resource, object)?;
    object = merged;
    meta::metadata(&mut object).insert("managedFields".to_owned(), managed);
    let dry_run = call.dry_run()?;
    if let Some(old) = old {
        let object = write::replace(store, resource, &old, object, &Fields::Applied(author), dry_run)?;
        return Ok(WriteOutcome { object, created: false, warnings });
    }
    if author.status {
        return Err(ApiError::not_found(resource, name));
    }
    strategy::prepare(resource, &mut object, author.now);
    let object = write::create_object(store, resource, object, author.now, dry_run)?;
    Ok(WriteOutcome { object, created: true, warnings })
}

fn merge(call: &Call<'_>, object_kind: ObjectKind, object: &mut Value) -> Result<()> {
    let unreadable = |error: serde_json::Error| ApiError::bad(format!("error decoding patch: {error}"));
    if call.content_type() == JSON {
        let patch: json_patch::Patch = serde_json::from_slice(call.body()).map_err(unreadable)?;
        return json_patch::patch(object, &patch).map_err(|error| {
            ApiError::inapplicable_patch(format!(
                "the server rejected our request due to an error in our request: {error}"
            ))
        });
    }
    let patch: Value = serde_json::from_slice(call.body()).map_err(unreadable)?;
    if !patch.is_object() {
        return Err(ApiError::bad("error decoding patch: it is not an object"));
    }
    if call.content_type() == MERGE {
        kiln_types::json::merge_patch(object, &patch);
        Ok(())
    } else {
        strategic::merge(object_kind, object, &patch)
    }
}

/// Whether two merge keys are equal.
fn same_key(one: &Value, other: &Value) -> bool {
    one == other && !one.is_null()
}
