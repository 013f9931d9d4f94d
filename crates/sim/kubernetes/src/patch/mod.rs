//! PATCH in three of Kubernetes' four formats. Server-side apply is rejected.

mod strategic;

use serde_json::Value;

use crate::call::Call;
use crate::error::{ApiError, Result};
use crate::event;
use crate::resource::{ObjectKind, Resource};
use crate::store::Store;
use crate::write::{self, WriteOutcome};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(crate) fn patch(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    (namespace, name): (Option<&str>, &str),
    status: bool,
) -> Result<WriteOutcome> {
    // The content type is checked before the object's existence.
    if ![JSON, MERGE, STRATEGIC].contains(&call.content_type()) {
        return Err(ApiError::media_type(&[JSON, MERGE, STRATEGIC]));
    }
    let stored = resource.stored();
    let old = store
        .get(stored, namespace.unwrap_or_default(), name)
        .cloned()
        .ok_or_else(|| ApiError::not_found(stored, name))?;
    let mut object = event::from_stored(resource, Value::clone(&old));
    apply(call, resource.object_kind, &mut object)?;
    let (mut object, warnings) = write::decode(call, resource, object)?;
    write::set_location(&mut object, namespace, Some(name))?;
    let object = write::replace(store, stored, &old, object, status, call.dry_run()?)?;
    Ok(WriteOutcome { object, created: false, warnings })
}

fn apply(call: &Call<'_>, object_kind: ObjectKind, object: &mut Value) -> Result<()> {
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
