//! Creates and changes objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apply::{self, Author};
use crate::call::Call;
use crate::error::{ApiError, FieldError, Result};
use crate::resource::{ObjectKind, Resource};
use crate::schema::{self, Decoded};
use crate::store::{Object, Store};
use crate::{event, meta, strategy};

/// The result of a write.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    pub(crate) object: Object,
    pub(crate) created: bool,
    /// Unknown fields that were dropped.
    pub(crate) warnings: Vec<String>,
}

/// Validates a submitted object, drops unknown fields, and converts it to the stored form.
pub(crate) fn decode(
    store: &Store,
    call: &Call<'_>,
    resource: &'static Resource,
    object: Value,
) -> Result<(Value, Vec<String>)> {
    let Decoded { object, unknown } = match store.definitions().of(resource) {
        Some(definition) => schema::decode_custom(definition, object)?,
        None => schema::decode(resource, object)?,
    };
    let unknown: Vec<String> = unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
    let warnings = match call.option("fieldValidation") {
        "Strict" if !unknown.is_empty() => {
            let (kind, version) = (resource.kind, resource.version);
            return Err(ApiError::bad(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
                unknown.join(", ")
            )));
        }
        "Ignore" => Vec::new(),
        "" | "Warn" | "Strict" => unknown,
        other => {
            return Err(ApiError::bad(format!(
                "invalid fieldValidation {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
            )));
        }
    };
    let mut object = event::to_stored(resource, object);
    if let Some(stored) = store.definitions().stored(resource.object_kind) {
        object["apiVersion"] = json!(stored.api_version());
        meta::metadata(&mut object).remove("managedFields");
    }
    Ok((object, warnings))
}

/// Handles POST.
pub(crate) fn create(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    namespace: Option<&str>,
    now: Timestamp,
) -> Result<WriteOutcome> {
    if resource.namespaced && namespace.is_none() {
        return Err(ApiError::method(resource, "create"));
    }
    let (mut object, warnings) = decode(store, call, resource, call.json()?)?;
    let resource = resource.stored();
    set_location(&mut object, namespace, None)?;
    if let Some(definition) = store.definitions().of(resource) {
        strategy::prepare(resource, &mut object, now);
        let author = Author::of_call(call, resource, false, now);
        apply::track(&definition.schema, None, &mut object, &author);
    }
    let object = create_object(store, resource, object, now, call.dry_run()?)?;
    Ok(WriteOutcome { object, created: true, warnings })
}

/// Creates an object whose name and namespace are set.
pub(crate) fn create_object(
    store: &mut Store,
    resource: &'static Resource,
    mut object: Value,
    now: Timestamp,
    dry_run: bool,
) -> Result<Object> {
    if !meta::resource_version(&object).is_empty() {
        return Err(ApiError::without_reason("resourceVersion should not be set on objects to be created"));
    }
    generate_name(store, resource, &mut object)?;
    let (namespace, name) = (meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
    if resource.namespaced {
        let spaces = ObjectKind::Namespace.resource();
        let space = store.get(spaces, "", &namespace).ok_or_else(|| ApiError::not_found(spaces, &namespace))?;
        if meta::is_terminating(space) {
            return Err(ApiError::terminating(resource, &name, &namespace));
        }
    }
    let metadata = meta::metadata(&mut object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    if !resource.is_custom() {
        metadata.remove("managedFields");
    }
    metadata.insert("creationTimestamp".to_owned(), json!(meta::time(now)));
    metadata.insert("uid".to_owned(), json!(store.ids.uuid()));
    if resource.generation {
        metadata.insert("generation".to_owned(), json!(1));
    } else {
        metadata.remove("generation");
    }
    strategy::prepare(resource, &mut object, now);
    strategy::check_new(store.definitions(), resource, &object)?;
    if store.get(resource, &namespace, &name).is_some() {
        return Err(ApiError::exists(resource, &name));
    }
    Ok(if dry_run { object.into() } else { store.put(resource.object_kind, object) })
}

/// Characters that form no words and are not confused with each other.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

fn generate_name(store: &mut Store, resource: &Resource, object: &mut Value) -> Result<()> {
    if !meta::name(object).is_empty() {
        return Ok(());
    }
    let stem = meta::text(object, "/metadata/generateName").to_owned();
    if stem.is_empty() {
        let cause = FieldError::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(resource, "", &[cause]));
    }
    let namespace = meta::namespace(object).to_owned();
    loop {
        let mut number = store.ids.number();
        let suffix: String = (0..5)
            .map(|_| {
                let length = SUFFIX.len() as u64;
                let at = usize::try_from(number % length).unwrap_or_default();
                number /= length;
                char::from(SUFFIX[at])
            })
            .collect();
        // Names have at most 63 characters, so that they can be label values.
        let name = format!("{}{suffix}", &stem[..stem.len().min(58)]);
        if store.get(resource, &namespace, &name).is_none() {
            meta::metadata(object).insert("name".to_owned(), json!(name));
            return Ok(());
        }
    }
}

/// Sets name and namespace from the path, and rejects an object with different ones.
pub(crate) fn set_location(object: &mut Value, namespace: Option<&str>, name: Option<&str>) -> Result<()> {
    let given = meta::namespace(object);
    match namespace {
        Some(namespace) if given.is_empty() => {
            meta::metadata(object).insert("namespace".to_owned(), json!(namespace));
        }
        Some(namespace) if given != namespace => {
            return Err(ApiError::bad(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Some(_) => {}
        None => drop(meta::metadata(object).remove("namespace")),
    }
    let given = meta::name(object);
    match name {
        Some(name) if given.is_empty() => drop(meta::metadata(object).insert("name".to_owned(), json!(name))),
        Some(name) if given != name => {
            return Err(ApiError::bad(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        _ => {}
    }
    Ok(())
}

/// Handles PUT, of an object or of its status.
pub(crate) fn update(
    store: &mut Store,
    call: &Call<'_>,
    resource: &'static Resource,
    (namespace, name): (Option<&str>, &str),
    status: bool,
    now: Timestamp,
) -> Result<WriteOutcome> {
    let (mut object, warnings) = decode(store, call, resource, call.json()?)?;
    let resource = resource.stored();
    set_location(&mut object, namespace, Some(name))?;
    let dry_run = call.dry_run()?;
    let Some(old) = store.get(resource, namespace.unwrap_or_default(), name).cloned() else {
        if !resource.create_on_update || status {
            return Err(ApiError::not_found(resource, name));
        }
        meta::metadata(&mut object).remove("resourceVersion");
        let object = create_object(store, resource, object, now, dry_run)?;
        return Ok(WriteOutcome { object, created: true, warnings });
    };
    if meta::resource_version(&object).is_empty() && !resource.unconditional_update {
        let cause = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(ApiError::invalid(resource, name, &[cause]));
    }
    let author = Author::of_call(call, resource, status, now);
    let object = replace(store, resource, &old, object, &Fields::Track(author), dry_run)?;
    Ok(WriteOutcome { object, created: false, warnings })
}

/// Where the managed fields of a changed custom resource come from.
#[derive(Debug)]
pub(crate) enum Fields {
    /// From the difference to the previous object.
    Track(Author),
    /// The new object has them already, because they decided how it was merged.
    Applied(Author),
}

/// Metadata that only the server writes.
const SERVER_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

/// Replaces `old` with `new` after validation.
pub(crate) fn replace(
    store: &mut Store,
    resource: &'static Resource,
    old: &Object,
    mut new: Value,
    fields: &Fields,
    dry_run: bool,
) -> Result<Object> {
    let (Fields::Track(author) | Fields::Applied(author)) = fields;
    let name = meta::name(old).to_owned();
    let requested = meta::resource_version(&new);
    if !requested.is_empty() && requested != meta::resource_version(old) {
        return Err(ApiError::modified(resource, &name));
    }
    let uid = meta::uid(&new);
    if !uid.is_empty() && uid != meta::uid(old) {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta::uid(old));
        return Err(ApiError::conflict(resource, &name, &why));
    }
    let metadata = meta::metadata(&mut new);
    for field in SERVER_FIELDS {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    let managed = metadata.remove("managedFields");
    let managed =
        if matches!(fields, Fields::Applied(_)) { managed } else { old["metadata"].get("managedFields").cloned() };
    metadata.insert("resourceVersion".to_owned(), json!(meta::resource_version(old)));
    remove_empty(metadata);
    if author.status {
        strategy::prepare_status(resource, old, &mut new);
    } else {
        strategy::prepare_change(resource, old, &mut new);
    }
    strategy::check_change(store.definitions(), resource, old, &new)?;
    if resource.generation && is_new_generation(resource, old, &new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        meta::metadata(&mut new).insert("generation".to_owned(), json!(generation));
    }
    match managed {
        Some(managed) => drop(meta::metadata(&mut new).insert("managedFields".to_owned(), managed)),
        None => drop(meta::metadata(&mut new).remove("managedFields")),
    }
    if new == **old {
        return Ok(old.clone());
    }
    if let (Fields::Track(author), Some(definition)) = (fields, store.definitions().of(resource)) {
        apply::track(&definition.schema, Some(old), &mut new, author);
    }
    if dry_run {
        return Ok(new.into());
    }
    // The last finalizer was removed, so the object is removed too.
    if meta::is_terminating(&new)
        && meta::finalizers(&new).is_empty()
        && !meta::finalizers(old).is_empty()
        && meta::deletion_grace(&new).unwrap_or_default() == 0
        && resource.object_kind != ObjectKind::Namespace
    {
        let gone = store.remove(resource.object_kind, meta::namespace(old), &name);
        return Ok(gone.unwrap_or_else(|| new.into()));
    }
    Ok(store.put(resource.object_kind, new))
}

/// A custom resource has a new generation with each change besides metadata and status, others with a changed spec.
fn is_new_generation(resource: &Resource, old: &Value, new: &Value) -> bool {
    if !resource.is_custom() {
        return old.get("spec") != new.get("spec");
    }
    let content = |object: &Value| {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("metadata");
            if !resource.subresources.is_empty() {
                fields.remove("status");
            }
        }
        object
    };
    content(old) != content(new)
}

/// Removes empty maps and lists from the metadata.
fn remove_empty(metadata: &mut serde_json::Map<String, Value>) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
}
