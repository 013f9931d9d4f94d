//! What a controller manager does in a real cluster, done here within the request that calls for it: budgets are counted, taints
//! follow a node's state, sets get their pods, and what has lost its owner or its namespace goes.

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
use crate::resource::Sort;
use crate::store::Store;

/// Follows up the changes after revision `from` until nothing is left to do.
pub(crate) fn settle(store: &mut Store, mut from: u64, schedules: bool, now: Timestamp) {
    loop {
        let mut work = Work::default();
        for change in store.since(from) {
            let namespace = meta::namespace(&change.object).to_owned();
            match change.sort {
                Sort::Pod | Sort::Budget | Sort::ReplicaSet => drop(work.budgets.insert(namespace.clone())),
                Sort::Node if !change.gone => drop(work.nodes.insert(meta::name(&change.object).to_owned())),
                _ => {}
            }
            match change.sort {
                Sort::ReplicaSet | Sort::DaemonSet => {
                    work.sets.insert((change.sort, namespace.clone(), meta::name(&change.object).to_owned()));
                }
                Sort::Node => work.daemons = true,
                Sort::Pod => {
                    if let Some(owner) = meta::controller(&change.object)
                        && let Some(resource) = owner_resource(owner)
                    {
                        work.sets.insert((resource.sort, namespace.clone(), meta::text(owner, "/name").to_owned()));
                    }
                }
                _ => {}
            }
            if change.gone {
                work.owners.insert(meta::uid(&change.object).to_owned());
                // Whoever waited for it may go on.
                for owner in meta::list(&change.object, "/metadata/ownerReferences") {
                    if let Some(resource) = owner_resource(owner) {
                        let space = if resource.namespaced { namespace.clone() } else { String::new() };
                        work.held.push((resource.sort, space, meta::text(owner, "/name").to_owned()));
                    }
                }
                work.spaces.insert(namespace);
            } else if change.sort == Sort::Namespace && meta::is_terminating(&change.object) {
                work.spaces.insert(meta::name(&change.object).to_owned());
            } else if meta::is_terminating(&change.object) {
                work.held.push((change.sort, namespace, meta::name(&change.object).to_owned()));
            }
        }
        let changed = store.since(from).any(|change| matches!(change.sort, Sort::Pod | Sort::Node));
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
    /// Namespaces whose budgets have to be counted anew.
    budgets: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// Those that are gone, by uid.
    owners: BTreeSet<String>,
    /// Namespaces that may have become empty.
    spaces: BTreeSet<String>,
    /// Replica sets and daemon sets that may lack pods.
    sets: BTreeSet<(Sort, String, String)>,
    /// A node came or went.
    daemons: bool,
    /// Objects that wait for their dependents.
    held: Vec<(Sort, String, String)>,
}

impl Work {
    fn run(self, store: &mut Store, now: Timestamp) {
        garbage::dependents(store, &self.owners, now);
        for (sort, namespace, name) in &self.held {
            garbage::held(store, *sort, namespace, name, now);
        }
        for space in &self.spaces {
            garbage::namespace(store, space, now);
        }
        for node in &self.nodes {
            nodes::taint(store, node, now);
        }
        for (sort, namespace, name) in &self.sets {
            workloads::fill(store, *sort, namespace, name, now);
        }
        if self.daemons {
            for set in store.objects(Sort::DaemonSet, None) {
                workloads::fill(store, Sort::DaemonSet, meta::namespace(&set), meta::name(&set), now);
            }
        }
        for namespace in &self.budgets {
            budgets::count(store, namespace, now);
        }
    }
}

/// Whether a taint keeps nobody away who has this toleration.
fn tolerated(taint: &Value, toleration: &Value) -> bool {
    let (key, effect) = (meta::text(toleration, "/key"), meta::text(toleration, "/effect"));
    (key.is_empty() || key == meta::text(taint, "/key"))
        && (effect.is_empty() || effect == meta::text(taint, "/effect"))
        && (meta::text(toleration, "/operator") == "Exists"
            || meta::text(toleration, "/value") == meta::text(taint, "/value"))
}

/// What time alone brings about.
pub(crate) fn tick(store: &mut Store, now: Timestamp) {
    nodes::expire(store, now);
}

/// When [`tick`] next has something to do at the latest.
pub(crate) const TICK_SECONDS: u64 = 1;
