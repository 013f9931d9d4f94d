//! The objects, their revisions, and what happened to them lately.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use kiln_sim_store::{Ids, Persistent, Table};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::meta;
use crate::resource::{RESOURCES, Resource, Sort};

/// How many changes a watch can be behind. Enough for a client that was away while 5,000 nodes wrote their status twice.
const HISTORY: usize = 10_000;

/// An object as it was at one revision.
pub(crate) type Object = Arc<Value>;

/// One change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) sort: Sort,
    pub(crate) key: String,
    pub(crate) before: Option<Object>,
    /// What it became, or what it last was, dated by this change.
    pub(crate) object: Object,
    pub(crate) gone: bool,
}

/// Everything that the server knows.
#[derive(Debug)]
pub(crate) struct Store {
    objects: Table<Object>,
    revision: u64,
    /// Changes up to this revision are forgotten.
    floor: u64,
    history: VecDeque<Change>,
    /// The keys of those that name an owner, by its uid; follows from `objects`.
    owned: HashMap<String, BTreeSet<String>>,
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
            ids: Ids::new(seed),
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The last revision whose changes are forgotten.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<&Object> {
        self.objects.get(&resource.key(namespace, name))
    }

    /// The objects of a resource, of one namespace or of all, in key order.
    pub(crate) fn all(&self, sort: Sort, namespace: Option<&str>) -> Vec<(&str, &Object)> {
        self.objects.below(&sort.resource().prefix(namespace)).collect()
    }

    /// The same, without keys.
    pub(crate) fn objects(&self, sort: Sort, namespace: Option<&str>) -> Vec<Object> {
        self.all(sort, namespace).into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// The objects as they were at a revision, or `None` when that is forgotten.
    pub(crate) fn all_at(&self, sort: Sort, namespace: Option<&str>, revision: u64) -> Option<Vec<(String, Object)>> {
        if revision < self.floor {
            return None;
        }
        let prefix = sort.resource().prefix(namespace);
        // The oldest change after the revision knows what was before it.
        let mut then: HashMap<&str, Option<&Object>> = HashMap::new();
        for change in self.since(revision).filter(|change| change.key.starts_with(&prefix)) {
            then.entry(&change.key).or_insert(change.before.as_ref());
        }
        let mut all: Vec<(String, Object)> = self
            .all(sort, namespace)
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

    /// Puts an object in place; it gets the next revision.
    pub(crate) fn put(&mut self, sort: Sort, mut object: Value) -> Object {
        self.revision += 1;
        meta::set_resource_version(&mut object, self.revision);
        let key = sort.resource().key(meta::namespace(&object), meta::name(&object));
        let object = Arc::new(object);
        let before = self.objects.get(&key).cloned();
        self.index(&key, before.as_ref(), Some(&object));
        self.objects.insert(key.clone(), object.clone());
        self.remember(Change { revision: self.revision, sort, key, before, object: object.clone(), gone: false });
        object
    }

    /// Takes an object out. What comes back is dated by its end.
    pub(crate) fn remove(&mut self, sort: Sort, namespace: &str, name: &str) -> Option<Object> {
        let key = sort.resource().key(namespace, name);
        let before = self.objects.remove(&key)?;
        self.index(&key, Some(&before), None);
        self.revision += 1;
        let mut last = Value::clone(&before);
        meta::set_resource_version(&mut last, self.revision);
        let object = Arc::new(last);
        let revision = self.revision;
        self.remember(Change { revision, sort, key, before: Some(before), object: object.clone(), gone: true });
        Some(object)
    }

    /// What names this uid as one of its owners.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<(Sort, Object)> {
        let keys = self.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((sort_of(key)?, self.objects.get(key)?.clone()))).collect()
    }

    fn index(&mut self, key: &str, before: Option<&Object>, after: Option<&Object>) {
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

/// One commit.
#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    ids: Ids,
    /// Key, and the object or null.
    changes: Vec<(String, Option<Box<RawValue>>)>,
}

/// The sort of what is stored under a key.
fn sort_of(key: &str) -> Option<Sort> {
    let plural = key.split('/').next()?;
    RESOURCES.iter().find(|resource| resource.plural == plural).map(|resource| resource.sort)
}

fn raw(object: &Object) -> Box<RawValue> {
    serde_json::value::to_raw_value(&**object).expect("objects have text keys only")
}

impl Persistent for Store {
    fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let line: Line = serde_json::from_str(line)?;
        self.revision = line.revision;
        self.ids = line.ids;
        // What clients saw before the restart they have to list again.
        self.floor = line.revision;
        for (key, object) in line.changes {
            if sort_of(&key).is_none() {
                return Err(serde::de::Error::custom(format!("`{key}` is the key of no resource")));
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
    fn a_list_of_an_earlier_revision_shows_what_was_there_then() {
        let mut store = Store::new(1);
        store.put(Sort::ConfigMap, named("one", 1));
        store.put(Sort::ConfigMap, named("two", 1));
        let then = store.revision();
        store.put(Sort::ConfigMap, named("one", 2));
        store.put(Sort::ConfigMap, named("one", 3));
        store.remove(Sort::ConfigMap, "a", "two");
        store.put(Sort::ConfigMap, named("three", 1));
        let at = |revision| store.all_at(Sort::ConfigMap, Some("a"), revision).unwrap();
        assert_eq!(names(&at(then)), [("one", "1"), ("two", "1")]);
        assert_eq!(names(&at(store.revision())), [("one", "3"), ("three", "1")]);
        assert_eq!(names(&at(0)), []);
    }

    #[test]
    fn history_is_bounded_and_says_what_it_forgot() {
        let mut store = Store::new(1);
        for turn in 0..=u32::try_from(HISTORY).unwrap() {
            store.put(Sort::ConfigMap, named("one", turn));
        }
        assert_eq!(store.floor(), 1);
        assert_eq!(store.since(1).count(), HISTORY);
        assert!(store.all_at(Sort::ConfigMap, None, 0).is_none());
    }
}
