//! The objects of one kind, as the watch and the operator's own writes show them.
//!
//! kube's reflector only follows the watch, which is later than the response to a write. A decision between the two would be made on the
//! state before the write, and could start a second node where one is allowed. So the responses are stored too, and the higher
//! `resourceVersion` wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource;
use kube::runtime::watcher::Event;

/// All objects at one moment, by name.
pub(super) type Snapshot<K> = BTreeMap<String, Arc<K>>;

/// An object of a store.
pub(super) trait Stored: Resource<DynamicType = ()> + Send + Sync + 'static {
    /// Removes what the operator does not read, to save memory.
    fn trim(&mut self) {
        self.meta_mut().managed_fields = None;
    }

    /// Whether no decision depends on the difference between two versions of the object.
    fn is_equivalent(&self, _other: &Self) -> bool {
        false
    }
}

/// The objects of one kind.
pub(super) struct Store<K> {
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    objects: Snapshot<K>,
    /// The objects of a list that has not ended.
    listed: Option<Snapshot<K>>,
    /// The objects that were written since that list began.
    fresh: BTreeSet<String>,
    /// The revision of the deletion of objects, so that a late response to a write does not bring them back.
    deleted: BTreeMap<String, u64>,
    synced: bool,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        let inner = Inner {
            objects: BTreeMap::new(),
            listed: None,
            fresh: BTreeSet::new(),
            deleted: BTreeMap::new(),
            synced: false,
        };
        Self { inner: Mutex::new(inner) }
    }
}

impl<K: Stored> Store<K> {
    fn inner(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all objects have been listed once.
    pub(super) fn is_synced(&self) -> bool {
        self.inner().synced
    }

    /// All objects.
    pub(super) fn snapshot(&self) -> Snapshot<K> {
        self.inner().objects.clone()
    }

    /// Stores an event of the watch, and returns whether a decision may depend on it.
    pub(super) fn apply(&self, event: Event<K>) -> bool {
        let mut inner = self.inner();
        match event {
            Event::Init => {
                inner.listed = Some(BTreeMap::new());
                inner.fresh.clear();
                false
            }
            Event::InitApply(mut object) => {
                object.trim();
                let name = name(&object);
                inner.listed.get_or_insert_default().insert(name, Arc::new(object));
                false
            }
            Event::InitDone => {
                let mut listed = inner.listed.take().unwrap_or_default();
                for name in std::mem::take(&mut inner.fresh) {
                    if let (Some(object), Some(known)) = (listed.get_mut(&name), inner.objects.get(&name))
                        && revision(&**known) > revision(&**object)
                    {
                        *object = known.clone();
                    }
                }
                inner.objects = listed;
                inner.deleted.clear();
                inner.synced = true;
                true
            }
            Event::Apply(object) => inner.insert(object),
            Event::Delete(object) => {
                let name = name(&object);
                inner.deleted.insert(name.clone(), revision(&object));
                let is_known = inner.objects.get(&name).is_some_and(|known| known.meta().uid == object.meta().uid);
                is_known && inner.objects.remove(&name).is_some()
            }
        }
    }

    /// Stores the response to a write, and returns whether it is new.
    pub(super) fn written(&self, object: K) -> bool {
        let mut inner = self.inner();
        let is_deleted = inner.deleted.get(&name(&object)).is_some_and(|deleted| *deleted >= revision(&object));
        if is_deleted {
            return false;
        }
        if inner.listed.is_some() {
            inner.fresh.insert(name(&object));
        }
        inner.insert(object)
    }
}

impl<K: Stored> Inner<K> {
    fn insert(&mut self, mut object: K) -> bool {
        object.trim();
        let name = name(&object);
        let known = self.objects.get(&name);
        if known.is_some_and(|known| revision(&**known) >= revision(&object)) {
            return false;
        }
        let is_relevant = known.is_none_or(|known| !known.is_equivalent(&object));
        self.objects.insert(name, Arc::new(object));
        is_relevant
    }
}

fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// The revision as a number. The API server's revisions of one kind are numbers that increase.
fn revision<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use kiln_fleet_api::Freeze;

    use super::*;

    fn at(name: &str, revision: u64, reason: &str) -> Freeze {
        let mut freeze = Freeze::new(name, kiln_fleet_api::FreezeSpec::default());
        freeze.metadata.resource_version = Some(revision.to_string());
        freeze.metadata.uid = Some("u".to_owned());
        freeze.spec.reason = reason.to_owned();
        freeze
    }

    fn reasons(store: &Store<Freeze>) -> Vec<String> {
        store.snapshot().values().map(|freeze| freeze.spec.reason.clone()).collect()
    }

    #[test]
    fn own_write_is_visible_before_the_watch_shows_it_and_is_not_undone_by_older_events() {
        let store = Store::default();
        assert!(store.apply(Event::Apply(at("f", 5, "old"))));
        assert!(store.written(at("f", 9, "written")));
        assert!(!store.apply(Event::Apply(at("f", 7, "between"))));
        assert_eq!(reasons(&store), ["written"]);
        assert!(!store.apply(Event::Apply(at("f", 9, "written"))), "the watch shows the write itself");
        assert!(store.apply(Event::Apply(at("f", 11, "later"))));
        assert_eq!(reasons(&store), ["later"]);
    }

    #[test]
    fn late_response_does_not_bring_a_deleted_object_back() {
        let store = Store::default();
        store.apply(Event::Apply(at("f", 5, "a")));
        assert!(store.apply(Event::Delete(at("f", 8, "a"))));
        assert!(!store.written(at("f", 7, "b")));
        assert_eq!(reasons(&store), [""; 0]);
        assert!(store.written(at("f", 9, "new")), "a new object with the same name");
    }

    #[test]
    fn list_replaces_all_objects_and_keeps_newer_ones() {
        let store = Store::default();
        assert!(!store.is_synced());
        store.apply(Event::Apply(at("gone", 5, "a")));
        store.apply(Event::Apply(at("restored", 50, "of another etcd")));
        store.apply(Event::Init);
        store.apply(Event::InitApply(at("kept", 6, "older")));
        store.apply(Event::InitApply(at("restored", 7, "from a backup")));
        store.written(at("kept", 9, "written during the list"));
        assert_eq!(reasons(&store).len(), 3, "nothing is removed before the list is complete");
        assert!(store.apply(Event::InitDone) && store.is_synced());
        assert_eq!(reasons(&store), ["written during the list", "from a backup"]);
    }
}
