//! The objects, their revisions, and their recent changes.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use kiln_sim_store::{Ids, Persistent, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::custom::Definitions;
use crate::meta;
use crate::resource::{ObjectKind, RESOURCES, Resource};

/// How many changes a watch can lag behind: enough for a client that reconnects after 5,000 nodes wrote their status twice.
const HISTORY: usize = 10_000;

/// An object at one revision.
pub(crate) type Object = Arc<Value>;

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) object_kind: ObjectKind,
    pub(crate) key: String,
    pub(crate) before: Option<Object>,
    /// The new state, or the last one of a deleted object, with the revision of this change.
    pub(crate) object: Object,
    pub(crate) gone: bool,
}

/// All objects of the server.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Table<Object>,
    revision: u64,
    /// Changes up to this revision are no longer available.
    floor: u64,
    history: VecDeque<Change>,
    /// The keys of the dependents of each owner uid; derived from `objects`.
    owned: HashMap<String, BTreeSet<String>>,
    /// The custom resources; derived from `objects`.
    definitions: Definitions,
    pub(crate) ids: Ids,
}

impl Store {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            objects: Table::default(),
            revision: 0,
            floor: 0,
            history: VecDeque::new(),
            owned: HashMap::new(),
            definitions: Definitions::default(),
            ids: Ids::new(seed),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The row of a kind; for a custom resource that of the stored version, or `None` if its definition is gone.
    pub(crate) fn resource(&self, object_kind: ObjectKind) -> Option<&'static Resource> {
        match object_kind {
            ObjectKind::Custom(_) => self.definitions.stored(object_kind),
            _ => Some(object_kind.resource()),
        }
    }

    /// The last revision whose changes are no longer available.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.get(&resource.object_kind.key(namespace, name))
    }

    /// The objects of a resource in one or all namespaces, in key order.
    pub(crate) fn all(&self, object_kind: ObjectKind, namespace: Option<&str>) -> Vec<(&str, &Object)> {
        self.objects.below(&object_kind.prefix(namespace)).collect()
    }

    /// Like [`Self::all`], without keys.
    pub(crate) fn objects(&self, object_kind: ObjectKind, namespace: Option<&str>) -> Vec<Object> {
        self.all(object_kind, namespace).into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// The objects at a revision, or `None` if that is no longer available.
    pub(crate) fn all_at(
        &self,
        object_kind: ObjectKind,
        namespace: Option<&str>,
        revision: u64,
    ) -> Option<Vec<(String, Object)>> {
        if revision < self.floor {
            return None;
        }
        let prefix = object_kind.prefix(namespace);
        // The oldest change after the revision has the state before it.
        let mut then: HashMap<&str, Option<&Object>> = HashMap::new();
        for change in self.since(revision).filter(|change| change.key.starts_with(&prefix)) {
            then.entry(&change.key).or_insert(change.before.as_ref());
        }
        let mut all: Vec<(String, Object)> = self
            .all(object_kind, namespace)
            .into_iter()
            .filter(|(key, _)| !then.contains_key(key))
            .map(|(key, object)| (key.to_owned(), object.clone()))
            .collect();
        all.extend(then.into_iter().filter_map(|(key, object)| Some((key.to_owned(), object?.clone()))));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(all)
    }

    /// The changes after a revision, oldest first.
    pub(crate) fn since(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let from = self.history.partition_point(|change| change.revision <= revision);
        self.history.range(from..)
    }

    /// Stores an object at the next revision.
    pub(crate) fn put(&mut self, object_kind: ObjectKind, mut object: Value) -> Object {
        self.revision += 1;
        meta::set_resource_version(&mut object, self.revision);
        let key = object_kind.key(meta::namespace(&object), meta::name(&object));
        let object = Arc::new(object);
        let before = self.objects.get(&key).cloned();
        self.index(&key, before.as_ref(), Some(&object));
        self.objects.insert(key.clone(), object.clone());
        self.remember(Change {
            revision: self.revision,
            object_kind,
            key,
            before,
            object: object.clone(),
            gone: false,
        });
        object
    }

    /// Removes an object, and returns it with the revision of its removal.
    pub(crate) fn remove(&mut self, object_kind: ObjectKind, namespace: &str, name: &str) -> Option<Object> {
        let key = object_kind.key(namespace, name);
        let before = self.objects.remove(&key)?;
        self.index(&key, Some(&before), None);
        self.revision += 1;
        let mut last = Value::clone(&before);
        meta::set_resource_version(&mut last, self.revision);
        let object = Arc::new(last);
        let revision = self.revision;
        self.remember(Change { revision, object_kind, key, before: Some(before), object: object.clone(), gone: true });
        Some(object)
    }

    /// The dependents of an owner uid.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<(ObjectKind, Object)> {
        let keys = self.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((self.kind_of_key(key)?, self.objects.get(key)?.clone()))).collect()
    }

    /// The kind of object that is stored under a key.
    fn kind_of_key(&self, key: &str) -> Option<ObjectKind> {
        let folder = key.split('/').next()?;
        if folder.contains('.') {
            return self.definitions.object_kind(folder);
        }
        RESOURCES.iter().find(|resource| resource.plural == folder).map(|resource| resource.object_kind)
    }

    fn index(&mut self, key: &str, before: Option<&Object>, after: Option<&Object>) {
        if let Some(name) = key.strip_prefix(&ObjectKind::Definition.prefix(Some(""))) {
            self.definitions.update(name, after.map(|object| &**object));
        }
        let owners = |object: Option<&Object>| -> Vec<String> {
            let list = object.map_or(&[][..], |object| meta::list(object, "/metadata/ownerReferences"));
            list.iter().map(|owner| meta::text(owner, "/uid").to_owned()).collect()
        };
        for uid in owners(before) {
            if let Some(keys) = self.owned.get_mut(&uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.owned.remove(&uid);
                }
            }
        }
        for uid in owners(after) {
            self.owned.entry(uid).or_default().insert(key.to_owned());
        }
    }

    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.floor = oldest.revision;
        }
    }

    fn line(&self, changes: Vec<(String, Option<Box<RawValue>>)>) -> Vec<u8> {
        let line = Line { revision: self.revision, ids: self.ids.clone(), changes };
        serde_json::to_vec(&line).expect("a line has text keys only")
    }
}

/// One commit in the journal.
#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    ids: Ids,
    /// Key and object, or null for a deletion.
    changes: Vec<(String, Option<Box<RawValue>>)>,
}

fn raw(object: &Object) -> Box<RawValue> {
    serde_json::value::to_raw_value(&**object).expect("objects have text keys only")
}

impl Persistent for Store {
    fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let line: Line = serde_json::from_str(line)?;
        self.revision = line.revision;
        self.ids = line.ids;
        // Clients must list again after a restart.
        self.floor = line.revision;
        for (key, object) in line.changes {
            // The definition of a custom resource may be a later line.
            let is_custom = key.split('/').next().is_some_and(|folder| folder.contains('.'));
            if !is_custom && self.kind_of_key(&key).is_none() {
                return Err(serde::de::Error::custom(format!("unknown resource in key `{key}`")));
            }
            let object: Option<Value> = object.map(|raw| serde_json::from_str(raw.get())).transpose()?;
            let object = object.map(Arc::new);
            let before = self.objects.get(&key).cloned();
            self.index(&key, before.as_ref(), object.as_ref());
            self.objects.restore(key, object);
        }
        Ok(())
    }

    fn take_changes(&mut self) -> Option<Vec<u8>> {
        let changes: Vec<_> =
            self.objects.take_changes().into_iter().map(|(key, object)| (key, object.map(raw))).collect();
        (!changes.is_empty()).then(|| self.line(changes))
    }

    fn full_state(&self) -> Vec<u8> {
        self.line(self.objects.iter().map(|(key, object)| (key.to_owned(), Some(raw(object)))).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str, value: u32) -> Value {
        json!({"metadata": {"name": name, "namespace": "a"}, "data": {"v": value.to_string()}})
    }

    fn names(all: &[(String, Object)]) -> Vec<(&str, &str)> {
        all.iter().map(|(_, object)| (meta::name(object), meta::text(object, "/data/v"))).collect()
    }

    #[test]
    fn list_of_an_earlier_revision_shows_the_objects_at_that_time() {
        let mut store = Store::new(1);
        store.put(ObjectKind::ConfigMap, named("one", 1));
        store.put(ObjectKind::ConfigMap, named("two", 1));
        let then = store.revision();
        store.put(ObjectKind::ConfigMap, named("one", 2));
        store.put(ObjectKind::ConfigMap, named("one", 3));
        store.remove(ObjectKind::ConfigMap, "a", "two");
        store.put(ObjectKind::ConfigMap, named("three", 1));
        let at = |revision| store.all_at(ObjectKind::ConfigMap, Some("a"), revision).unwrap();
        assert_eq!(names(&at(then)), [("one", "1"), ("two", "1")]);
        assert_eq!(names(&at(store.revision())), [("one", "3"), ("three", "1")]);
        assert_eq!(names(&at(0)), []);
    }

    #[test]
    fn history_is_bounded_and_reports_its_oldest_revision() {
        let mut store = Store::new(1);
        for turn in 0..=u32::try_from(HISTORY).unwrap() {
            store.put(ObjectKind::ConfigMap, named("one", turn));
        }
        assert_eq!(store.floor(), 1);
        assert_eq!(store.since(1).count(), HISTORY);
        assert!(store.all_at(ObjectKind::ConfigMap, None, 0).is_none());
    }
}
