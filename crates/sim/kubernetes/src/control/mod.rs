//! The work of a controller manager, done within the request that makes it necessary: budget status, node taints, pods of sets, and
//! garbage collection.

mod budgets;
mod garbage;
mod nodes;
mod scheduler;
mod workloads;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use crate::meta;
use crate::pods::owner_resource;
use crate::resource::ObjectKind;
use crate::store::Store;

/// Reacts to the changes after revision `from` until nothing is left to do.
pub(crate) fn settle(store: &mut Store, mut from: u64, schedules: bool, now: Timestamp) {
    loop {
        let mut work = Work::default();
        for change in store.since(from) {
            let namespace = meta::namespace(&change.object).to_owned();
            match change.object_kind {
                ObjectKind::Pod | ObjectKind::Budget | ObjectKind::ReplicaSet => {
                    work.budgets.insert(namespace.clone());
                }
                ObjectKind::Node if !change.gone => drop(work.nodes.insert(meta::name(&change.object).to_owned())),
                _ => {}
            }
            match change.object_kind {
                ObjectKind::ReplicaSet | ObjectKind::DaemonSet => {
                    work.sets.insert((change.object_kind, namespace.clone(), meta::name(&change.object).to_owned()));
                }
                ObjectKind::Node => work.daemons = true,
                ObjectKind::Pod => {
                    if let Some(owner) = meta::controller(&change.object)
                        && let Some(resource) = owner_resource(store, owner)
                    {
                        let name = meta::text(owner, "/name").to_owned();
                        work.sets.insert((resource.object_kind, namespace.clone(), name));
                    }
                }
                _ => {}
            }
            if change.gone {
                work.deleted.insert(meta::uid(&change.object).to_owned());
                // An owner that waits for it may continue.
                for owner in meta::list(&change.object, "/metadata/ownerReferences") {
                    if let Some(resource) = owner_resource(store, owner) {
                        let space = if resource.namespaced { namespace.clone() } else { String::new() };
                        work.terminating.push((resource.object_kind, space, meta::text(owner, "/name").to_owned()));
                    }
                }
                work.spaces.insert(namespace);
                if let ObjectKind::Custom(definition) = change.object_kind {
                    work.definitions.insert(definition.to_owned());
                }
            } else if change.object_kind == ObjectKind::Namespace && meta::is_terminating(&change.object) {
                work.spaces.insert(meta::name(&change.object).to_owned());
            } else if change.object_kind == ObjectKind::Definition && meta::is_terminating(&change.object) {
                work.definitions.insert(meta::name(&change.object).to_owned());
            } else if meta::is_terminating(&change.object) {
                work.terminating.push((change.object_kind, namespace, meta::name(&change.object).to_owned()));
            }
        }
        let changed = store.since(from).any(|change| matches!(change.object_kind, ObjectKind::Pod | ObjectKind::Node));
        from = store.revision();
        work.run(store, now);
        if schedules && (changed || store.revision() != from) {
            scheduler::schedule(store, now);
        }
        if store.revision() == from {
            return;
        }
    }
}

#[derive(Default)]
struct Work {
    /// Namespaces whose budgets are out of date.
    budgets: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// Deleted objects, by uid.
    deleted: BTreeSet<String>,
    /// Namespaces that may have become empty.
    spaces: BTreeSet<String>,
    /// Definitions that may be terminating, whose last object may be gone.
    definitions: BTreeSet<String>,
    /// Replica sets and daemon sets whose number of pods may be wrong.
    sets: BTreeSet<(ObjectKind, String, String)>,
    /// Whether a node was added or removed.
    daemons: bool,
    /// Objects that wait for their dependents.
    terminating: Vec<(ObjectKind, String, String)>,
}

impl Work {
    fn run(self, store: &mut Store, now: Timestamp) {
        garbage::collect_dependents(store, &self.deleted, now);
        for (object_kind, namespace, name) in &self.terminating {
            garbage::finish_propagation(store, *object_kind, namespace, name, now);
        }
        for space in &self.spaces {
            garbage::finish_namespace(store, space, now);
        }
        for definition in &self.definitions {
            garbage::finish_definition(store, definition, now);
        }
        for node in &self.nodes {
            nodes::update_taints(store, node, now);
        }
        for (object_kind, namespace, name) in &self.sets {
            workloads::sync(store, *object_kind, namespace, name, now);
        }
        if self.daemons {
            for set in store.objects(ObjectKind::DaemonSet, None) {
                workloads::sync(store, ObjectKind::DaemonSet, meta::namespace(&set), meta::name(&set), now);
            }
        }
        for namespace in &self.budgets {
            budgets::update(store, namespace, now);
        }
    }
}

/// Whether a toleration matches a taint.
fn tolerates(taint: &Value, toleration: &Value) -> bool {
    let (key, effect) = (meta::text(toleration, "/key"), meta::text(toleration, "/effect"));
    (key.is_empty() || key == meta::text(taint, "/key"))
        && (effect.is_empty() || effect == meta::text(taint, "/effect"))
        && (meta::text(toleration, "/operator") == "Exists"
            || meta::text(toleration, "/value") == meta::text(taint, "/value"))
}

/// Applies changes that only depend on time.
pub(crate) fn tick(store: &mut Store, now: Timestamp) {
    nodes::expire(store, now);
}

/// The longest time between two calls of [`tick`].
pub(crate) const TICK_SECONDS: u64 = 1;
