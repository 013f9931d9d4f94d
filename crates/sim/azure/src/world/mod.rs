//! The state of the embedded Azure and of the machines in it. Nothing here waits or does I/O: time comes in from outside, and what
//! changed is handed out as one record to be logged.

pub(crate) mod boot;
pub(crate) mod contents;
pub(crate) mod contents_spec;
mod log;
pub(crate) mod operation;
mod packages;
pub(crate) mod pool;
pub(crate) mod profile;
pub(crate) mod resource;
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
use crate::arm::kind::Kind;
use operation::{Event, Fate, Operation};
use resource::Resource;
use spec::WorldSpec;

/// Everything there is.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) spec: Arc<WorldSpec>,
    pub(crate) now: Timestamp,
    pub(crate) groups: Table<Group>,
    pub(crate) resources: Table<Resource>,
    pub(crate) operations: Table<Operation>,
    pub(crate) agenda: Table<Event>,
    pub(crate) meta: Meta,
    /// Which machine has which address; follows from `resources`.
    addresses: HashMap<Ipv4Addr, String>,
    /// What the fault plan has in store for the operation that the call under way starts.
    pub(crate) fate: Fate,
    /// Keep what a resource was before its last write, for stale reads.
    pub(crate) keep_previous: bool,
}

/// A resource group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) subscription: String,
    pub(crate) name: String,
    pub(crate) body: Map<String, Value>,
}

/// Counters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) ids: Ids,
    pub(crate) sequence: u64,
    pub(crate) machines: u32,
    /// Bootstrap tokens that let nobody in any more.
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
            meta: Meta { ids: Ids::new(seed), sequence: 0, machines: 0, revoked_tokens },
            addresses: HashMap::new(),
            fate: Fate::Normal,
            keep_previous: false,
        }
    }

    /// Runs what is due until `now`, or everything there is when the events move the clock.
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
    }

    /// A sequence number, for keys that must sort by age.
    pub(crate) fn sequence(&mut self) -> u64 {
        self.meta.sequence += 1;
        self.meta.sequence
    }

    /// The machine that has this address.
    pub(crate) fn machine_at(&self, address: Ipv4Addr) -> Option<&str> {
        self.addresses.get(&address).map(String::as_str)
    }

    /// The machine with this VM name or computer name.
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

    /// Takes a machine's address into the books.
    pub(crate) fn index_one(&mut self, key: &str) {
        if let Some(vm) = self.resources.get(key).and_then(|resource| resource.vm.as_ref()) {
            self.addresses.insert(vm.address, key.to_owned());
        }
    }

    /// Removes a resource and all that is below it.
    pub(crate) fn remove(&mut self, key: &str) {
        let below: Vec<String> = self.resources.below(&format!("{key}/")).map(|(key, _)| key.to_owned()).collect();
        for key in below.iter().map(String::as_str).chain([key]) {
            if let Some(Resource { vm: Some(vm), .. }) = self.resources.remove(key) {
                self.addresses.remove(&vm.address);
            }
        }
    }

    /// A free address for a new machine.
    pub(crate) fn free_address(&mut self) -> Ipv4Addr {
        loop {
            let address = self.spec.address_prefix.address(self.meta.machines);
            self.meta.machines += 1;
            // The world may not be larger than its network; `WorldSpec` limits pools, so this ends.
            if !self.addresses.contains_key(&address) {
                return address;
            }
        }
    }

    /// The children of a resource of one kind, in key order.
    pub(crate) fn children(&self, parent: &ResourceId, kind: Kind) -> Vec<&Resource> {
        let prefix = parent.child(kind, "").key();
        self.resources
            .below(&prefix)
            .map(|(_, resource)| resource)
            .filter(|resource| resource.id.kind == kind)
            .collect()
    }

    /// Restores the books after the tables were filled from a log.
    pub(crate) fn index(&mut self) {
        self.addresses = self
            .resources
            .iter()
            .filter_map(|(key, resource)| resource.vm.as_ref().map(|vm| (vm.address, key.to_owned())))
            .collect();
    }
}
