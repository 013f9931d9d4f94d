//! Garbage collection: dependents of deleted owners, and the content of deleted namespaces.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::delete::{self, FOREGROUND, ORPHAN, Options};
use crate::meta;
use crate::pods::owner_resource;
use crate::resource::{ObjectKind, RESOURCES};
use crate::store::{Object, Store};

/// All objects of a namespace.
fn content(store: &Store, namespace: &str) -> Vec<(ObjectKind, Object)> {
    let custom = store.definitions().served().map(|definition| definition.resource);
    let kinds: BTreeSet<ObjectKind> = RESOURCES
        .iter()
        .chain(custom)
        .filter(|resource| resource.object_kind != ObjectKind::NewEvent && resource.namespaced)
        .map(|resource| resource.object_kind)
        .collect();
    let objects =
        |object_kind| store.objects(object_kind, Some(namespace)).into_iter().map(move |one| (object_kind, one));
    kinds.into_iter().flat_map(objects).collect()
}

/// Deletes the objects whose owners are all gone.
pub(super) fn collect_dependents(store: &mut Store, gone: &BTreeSet<String>, now: Timestamp) {
    let owned: Vec<_> = gone.iter().flat_map(|uid| store.owned_by(uid)).collect();
    for (object_kind, object) in owned {
        let owners = meta::list(&object, "/metadata/ownerReferences");
        let lost = |owner: &Value| gone.contains(meta::text(owner, "/uid"));
        if meta::is_terminating(&object) {
            continue;
        }
        let alive = owners.iter().any(|owner| {
            !lost(owner)
                && owner_resource(store, owner)
                    .and_then(|resource| {
                        let namespace = if resource.namespaced { meta::namespace(&object) } else { "" };
                        store.get(resource, namespace, meta::text(owner, "/name"))
                    })
                    .is_some_and(|found| meta::uid(found) == meta::text(owner, "/uid"))
        });
        if alive {
            disown(store, object_kind, &object, |owner| !lost(owner));
        } else {
            delete_object(store, object_kind, &object, now);
        }
    }
}

fn delete_object(store: &mut Store, object_kind: ObjectKind, object: &Object, now: Timestamp) {
    if let Some(resource) = store.resource(object_kind) {
        // An error would occur again at the next deletion; nothing else can be done here.
        let _ = delete::delete(store, resource, object, &Options::default(), now);
    }
}

fn disown(store: &mut Store, object_kind: ObjectKind, object: &Value, stays: impl Fn(&Value) -> bool) {
    let mut new = object.clone();
    let owners: Vec<Value> =
        meta::list(object, "/metadata/ownerReferences").iter().filter(|owner| stays(owner)).cloned().collect();
    if owners.is_empty() {
        meta::metadata(&mut new).remove("ownerReferences");
    } else {
        meta::metadata(&mut new).insert("ownerReferences".to_owned(), json!(owners));
    }
    store.put(object_kind, new);
}

/// Finishes a deletion with propagation once the dependents are orphaned or gone.
pub(super) fn finish_propagation(
    store: &mut Store,
    object_kind: ObjectKind,
    namespace: &str,
    name: &str,
    now: Timestamp,
) {
    let Some(resource) = store.resource(object_kind) else {
        return;
    };
    let Some(object) = store.get(resource, namespace, name).cloned() else {
        return;
    };
    if !meta::is_terminating(&object) {
        return;
    }
    let finalizers = meta::finalizers(&object);
    let uid = meta::uid(&object);
    let mut release = None;
    if finalizers.contains(&ORPHAN) {
        for (object_kind, dependent) in store.owned_by(uid) {
            disown(store, object_kind, &dependent, |owner| meta::text(owner, "/uid") != uid);
        }
        release = Some(ORPHAN);
    } else if finalizers.contains(&FOREGROUND) {
        let mut blocked = false;
        for (object_kind, dependent) in store.owned_by(uid) {
            let owners = meta::list(&dependent, "/metadata/ownerReferences");
            blocked |= owners
                .iter()
                .any(|owner| meta::text(owner, "/uid") == uid && owner["blockOwnerDeletion"] == json!(true));
            if !meta::is_terminating(&dependent) {
                delete_object(store, object_kind, &dependent, now);
            }
        }
        if !blocked {
            release = Some(FOREGROUND);
        }
    }
    let Some(release) = release else { return };
    let mut new = Value::clone(&object);
    let rest: Vec<&str> = finalizers.into_iter().filter(|one| *one != release).collect();
    if rest.is_empty() {
        meta::metadata(&mut new).remove("finalizers");
        if meta::deletion_grace(&new).unwrap_or_default() == 0 {
            store.remove(object_kind, namespace, name);
            return;
        }
    } else {
        meta::metadata(&mut new).insert("finalizers".to_owned(), json!(rest));
    }
    store.put(object_kind, new);
}

/// Empties a terminating namespace, and removes it once it is empty.
pub(super) fn finish_namespace(store: &mut Store, name: &str, now: Timestamp) {
    let terminating = |store: &Store| {
        store.get(ObjectKind::Namespace.resource(), "", name).is_some_and(|space| meta::is_terminating(space))
    };
    if name.is_empty() || !terminating(store) {
        return;
    }
    for (object_kind, object) in content(store, name) {
        if !meta::is_terminating(&object) {
            delete_object(store, object_kind, &object, now);
        }
    }
    let has_finalizers =
        store.get(ObjectKind::Namespace.resource(), "", name).is_some_and(|space| !meta::finalizers(space).is_empty());
    if !has_finalizers && content(store, name).is_empty() {
        store.remove(ObjectKind::Namespace, "", name);
    }
}

/// Deletes the objects of a terminating definition, and removes it once they are gone.
pub(super) fn finish_definition(store: &mut Store, name: &str, now: Timestamp) {
    let definition = store.get(ObjectKind::Definition.resource(), "", name);
    let Some(object_kind) =
        definition.filter(|object| meta::is_terminating(object)).and_then(|_| store.definitions().object_kind(name))
    else {
        return;
    };
    for object in store.objects(object_kind, None) {
        if !meta::is_terminating(&object) {
            delete_object(store, object_kind, &object, now);
        }
    }
    if store.objects(object_kind, None).is_empty() {
        store.remove(ObjectKind::Definition, "", name);
    }
}
