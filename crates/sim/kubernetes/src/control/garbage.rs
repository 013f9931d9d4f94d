//! What goes when something else went: dependents of an owner, the content of a namespace.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::delete::{self, FOREGROUND, ORPHAN, Options};
use crate::meta;
use crate::pods::owner_resource;
use crate::resource::{RESOURCES, Sort};
use crate::store::{Object, Store};

/// Everything in a namespace, with its sort.
fn content(store: &Store, namespace: &str) -> Vec<(Sort, Object)> {
    RESOURCES
        .iter()
        .filter(|resource| resource.sort != Sort::NewEvent && resource.namespaced)
        .flat_map(|resource| {
            store.objects(resource.sort, Some(namespace)).into_iter().map(|object| (resource.sort, object))
        })
        .collect()
}

/// Deletes what only those owned that are gone.
pub(super) fn dependents(store: &mut Store, gone: &BTreeSet<String>, now: Timestamp) {
    let owned: Vec<_> = gone.iter().flat_map(|uid| store.owned_by(uid)).collect();
    for (sort, object) in owned {
        let owners = meta::list(&object, "/metadata/ownerReferences");
        let lost = |owner: &Value| gone.contains(meta::text(owner, "/uid"));
        if meta::is_terminating(&object) {
            continue;
        }
        let alive = owners.iter().any(|owner| {
            !lost(owner)
                && owner_resource(owner)
                    .and_then(|resource| {
                        let namespace = if resource.namespaced { meta::namespace(&object) } else { "" };
                        store.get(resource, namespace, meta::text(owner, "/name"))
                    })
                    .is_some_and(|found| meta::uid(found) == meta::text(owner, "/uid"))
        });
        if alive {
            disown(store, sort, &object, |owner| !lost(owner));
        } else {
            // A refusal is the next deletion's to meet again; nothing else can be done here.
            let _ = delete::delete(store, sort.resource(), &object, &Options::default(), now);
        }
    }
}

fn disown(store: &mut Store, sort: Sort, object: &Value, stays: impl Fn(&Value) -> bool) {
    let mut new = object.clone();
    let owners: Vec<Value> =
        meta::list(object, "/metadata/ownerReferences").iter().filter(|owner| stays(owner)).cloned().collect();
    if owners.is_empty() {
        meta::metadata(&mut new).remove("ownerReferences");
    } else {
        meta::metadata(&mut new).insert("ownerReferences".to_owned(), json!(owners));
    }
    store.put(sort, new);
}

/// Lets an object go on whose dependents were let go or are gone.
pub(super) fn held(store: &mut Store, sort: Sort, namespace: &str, name: &str, now: Timestamp) {
    let Some(object) = store.get(sort.resource(), namespace, name).cloned() else { return };
    if !meta::is_terminating(&object) {
        return;
    }
    let finalizers = meta::finalizers(&object);
    let uid = meta::uid(&object);
    let mut release = None;
    if finalizers.contains(&ORPHAN) {
        for (sort, dependent) in store.owned_by(uid) {
            disown(store, sort, &dependent, |owner| meta::text(owner, "/uid") != uid);
        }
        release = Some(ORPHAN);
    } else if finalizers.contains(&FOREGROUND) {
        let mut blocked = false;
        for (sort, dependent) in store.owned_by(uid) {
            let owners = meta::list(&dependent, "/metadata/ownerReferences");
            blocked |= owners
                .iter()
                .any(|owner| meta::text(owner, "/uid") == uid && owner["blockOwnerDeletion"] == json!(true));
            if !meta::is_terminating(&dependent) {
                let _ = delete::delete(store, sort.resource(), &dependent, &Options::default(), now);
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
            store.remove(sort, namespace, name);
            return;
        }
    } else {
        meta::metadata(&mut new).insert("finalizers".to_owned(), json!(rest));
    }
    store.put(sort, new);
}

/// Empties a namespace that is to go, and lets it go when it is empty.
pub(super) fn namespace(store: &mut Store, name: &str, now: Timestamp) {
    let terminating = |store: &Store| {
        store.get(Sort::Namespace.resource(), "", name).is_some_and(|space| meta::is_terminating(space))
    };
    if name.is_empty() || !terminating(store) {
        return;
    }
    for (sort, object) in content(store, name) {
        if !meta::is_terminating(&object) {
            let _ = delete::delete(store, sort.resource(), &object, &Options::default(), now);
        }
    }
    let held = store.get(Sort::Namespace.resource(), "", name).is_some_and(|space| !meta::finalizers(space).is_empty());
    if !held && content(store, name).is_empty() {
        store.remove(Sort::Namespace, "", name);
    }
}
