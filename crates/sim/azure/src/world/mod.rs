//! The simulated state: resources, operations, events and VMs. This module does no I/O and does not wait. Time is an argument, and changes
//! are collected for the journal.

pub(crate) mod boot;
pub(crate) mod contents;
pub(crate) mod contents_spec;
mod log;
pub(crate) mod operation;
mod packages;
pub(crate) mod pool;
pub(crate) mod profile;
pub(crate) mod resource;
mod retention;
pub(crate) mod roles;
pub(crate) mod spec;
pub(crate) mod vm;

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;
use kiln_sim_store::{Ids, Table};
use kiln_types::TokenId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use operation::{Event, Operation, PlannedOutcome};
use resource::Resource;
use spec::WorldSpec;

/// The whole simulated state.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) spec: Arc<WorldSpec>,
    pub(crate) now: Timestamp,
    pub(crate) groups: Table<Group>,
    pub(crate) resources: Table<Resource>,
    pub(crate) operations: Table<Operation>,
    pub(crate) agenda: Table<Event>,
    pub(crate) meta: Globals,
    /// Index of addresses, derived from `resources`.
    addresses: HashMap<Ipv4Addr, String>,
    /// Index of finished operations by their end, derived from `operations`.
    finished: BTreeSet<(Timestamp, String)>,
    /// The planned outcome of the operation that the current request starts.
    pub(crate) planned_outcome: PlannedOutcome,
    /// Whether to keep the previous version of a resource, for stale reads.
    pub(crate) keep_previous: bool,
}

/// A resource group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) subscription: String,
    pub(crate) name: String,
    pub(crate) body: Map<String, Value>,
}

/// State outside the tables.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Globals {
    pub(crate) ids: Ids,
    pub(crate) sequence: u64,
    pub(crate) machines: u32,
    /// Revoked bootstrap tokens.
    #[serde(default)]
    pub(crate) revoked_tokens: BTreeSet<TokenId>,
}

impl World {
    pub(crate) fn empty(spec: Arc<WorldSpec>, now: Timestamp, seed: u64) -> Self {
        let revoked_tokens = spec.revoked_tokens.clone();
        Self {
            spec,
            now,
            groups: Table::default(),
            resources: Table::default(),
            operations: Table::default(),
            agenda: Table::default(),
            meta: Globals { ids: Ids::new(seed), sequence: 0, machines: 0, revoked_tokens },
            addresses: HashMap::new(),
            finished: BTreeSet::new(),
            planned_outcome: PlannedOutcome::Normal,
            keep_previous: false,
        }
    }

    /// Runs everything that is due until `now`, or all events if they move the clock.
    pub(crate) fn advance(&mut self, now: Option<Timestamp>) {
        while let Some((key, event)) = self.agenda.first() {
            let due = event.at;
            if now.is_some_and(|now| due > now) {
                break;
            }
            let (key, event) = (key.to_owned(), event.clone());
            self.agenda.remove(&key);
            self.now = self.now.max(due);
            self.run(event.what);
        }
        if let Some(now) = now {
            self.now = self.now.max(now);
        }
        self.forget_operations();
    }

    /// Returns a sequence number, for keys that sort by age.
    pub(crate) fn sequence(&mut self) -> u64 {
        self.meta.sequence += 1;
        self.meta.sequence
    }

    /// The VM with this address.
    pub(crate) fn machine_at(&self, address: Ipv4Addr) -> Option<&str> {
        self.addresses.get(&address).map(String::as_str)
    }

    /// The VM with this VM name or computer name.
    pub(crate) fn machine_named(&self, name: &str) -> Option<&str> {
        self.resources
            .iter()
            .find(|(_, resource)| {
                resource
                    .vm
                    .as_ref()
                    .is_some_and(|vm| vm.name.eq_ignore_ascii_case(name) || vm.computer_name.eq_ignore_ascii_case(name))
            })
            .map(|(key, _)| key)
    }

    /// Adds the address of a VM to the index.
    pub(crate) fn index_one(&mut self, key: &str) {
        if let Some(vm) = self.resources.get(key).and_then(|resource| resource.vm.as_ref()) {
            self.addresses.insert(vm.address, key.to_owned());
        }
    }

    /// Removes a resource and its children.
    pub(crate) fn remove(&mut self, key: &str) {
        let below: Vec<String> = self.resources.below(&format!("{key}/")).map(|(key, _)| key.to_owned()).collect();
        for key in below.iter().map(String::as_str).chain([key]) {
            if let Some(Resource { vm: Some(vm), .. }) = self.resources.remove(key) {
                self.addresses.remove(&vm.address);
            }
        }
    }

    /// Returns an unused address for a new VM.
    pub(crate) fn free_address(&mut self) -> Ipv4Addr {
        loop {
            let address = self.spec.address_prefix.address(self.meta.machines);
            self.meta.machines += 1;
            // `WorldSpec` limits the size of pools, so an address is always found.
            if !self.addresses.contains_key(&address) {
                return address;
            }
        }
    }

    /// The children of a resource of one kind, in key order.
    pub(crate) fn children(&self, parent: &ResourceId, kind: ResourceKind) -> Vec<&Resource> {
        let prefix = parent.child(kind, "").key();
        self.resources
            .below(&prefix)
            .map(|(_, resource)| resource)
            .filter(|resource| resource.id.kind == kind)
            .collect()
    }

    /// Rebuilds the indexes after replaying the journal.
    pub(crate) fn index(&mut self) {
        self.index_finished();
        self.addresses = self
            .resources
            .iter()
            .filter_map(|(key, resource)| resource.vm.as_ref().map(|vm| (vm.address, key.to_owned())))
            .collect();
    }
}
