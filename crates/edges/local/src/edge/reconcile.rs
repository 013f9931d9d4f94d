//! Reconciles the machines of a pool with its document.

use std::collections::BTreeSet;

use kiln_types::node_name_of;
use kiln_types::{ImageSource, PoolName, PowerDown, Protection};

use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::layers::Chain;
use crate::records::{ImageRecord, MachineRecord, Membership, PoolRecord, VersionRecord, instance_id, version_key};
use crate::runner::{MachineKey, MachineKind, MachineRunner, RunnerError};
use crate::store::LockedStore;

/// The image of a new machine: its exact version, the kind of machine, and the layers of its disk.
pub(super) struct Resolved {
    pub(super) image: ImageSource,
    pub(super) kind: MachineKind,
    pub(super) chain: Chain,
}

/// The machines of a pool to start and to remove.
struct Pending {
    start: Vec<MachineKey>,
    remove: Vec<MachineKey>,
}

impl State {
    /// Resolves the image of a recipe to an exact version.
    pub(super) fn resolve(store: &LockedStore<'_>, image: &ImageSource) -> Result<Resolved, Error> {
        match image {
            ImageSource::Other(id) => {
                let found: ImageRecord = store.get(ids::parse_image_id(id)?)?;
                let chain = Chain { base: found.base, layers: Vec::new() };
                Ok(Resolved { image: image.clone(), kind: found.kind, chain })
            }
            ImageSource::ExactVersion(definition, number) => {
                let found: VersionRecord = store.get(&version_key(definition, number))?;
                Ok(Resolved { image: image.clone(), kind: found.kind, chain: found.chain })
            }
            ImageSource::Definition(name) => {
                let all = store.list::<VersionRecord>()?.into_iter();
                let included = all.filter(|version| version.definition == *name && !version.excluded);
                let Some(found) = included.max_by(|a, b| a.number.cmp(&b.number)) else {
                    return Err(Error::NothingIncluded { definition: format!("{}/{}", name.gallery, name.definition) });
                };
                let image = ImageSource::ExactVersion(found.definition, found.number);
                Ok(Resolved { image, kind: found.kind, chain: found.chain })
            }
            ImageSource::Marketplace(found) => {
                let text = format!("{}:{}:{}:{}", found.publisher, found.offer, found.sku, found.version);
                Err(Error::Invalid {
                    noun: "image",
                    text,
                    rule: "marketplace images are not available; import an image",
                })
            }
        }
    }

    /// Records a machine for each instance without one, and returns the remaining work. `None` if the pool does not exist.
    fn prepare(&self, store: &LockedStore<'_>, name: &PoolName) -> Result<Option<Pending>, Error> {
        let Some(pool) = store.find::<PoolRecord>(name.as_str())? else { return Ok(None) };
        let mut pending = Pending { start: Vec::new(), remove: Vec::new() };
        for machine in machines_in_pool(store, name)? {
            let Some(membership) = &machine.membership else { continue };
            if !pool.members.contains(&membership.instance) {
                pending.remove.push(machine.name);
            } else if !machine.provisioned {
                pending.start.push(machine.name);
            }
        }
        let mut numbers = Numbers::read(store)?;
        for instance in &pool.members {
            let id = instance_id(*instance);
            let key = MachineKey::of_instance(name, &id);
            if store.find::<MachineRecord>(key.as_str())?.is_some() {
                continue;
            }
            let Resolved { image, kind, chain } = Self::resolve(store, &pool.image)?;
            store.put(&MachineRecord {
                name: key.clone(),
                revision: 1,
                membership: Some(Membership { pool: name.clone(), instance: *instance, model: pool.model }),
                computer_name: node_name_of(name, &id)?,
                vm_id: (self.options.new_id)(),
                kind,
                number: numbers.take()?,
                size: pool.size,
                disk: self.layers.fresh(store, kind, chain, self.new_layer()?)?,
                image,
                custom_data: pool.custom_data.clone(),
                user_data: pool.user_data.clone(),
                protection: Protection::NONE,
                tags: pool.tags.clone(),
                on: true,
                deallocated: false,
                provisioned: false,
            })?;
            pending.start.push(key);
        }
        if pool.deleting && pending.remove.is_empty() {
            store.remove::<PoolRecord>(name.as_str())?;
        }
        Ok(Some(pending))
    }
}

/// A quarter of the machine numbers that have an address, and far more machines than one host can run.
const MACHINE_LIMIT: u16 = 16_000;

/// The numbers that machines have.
pub(super) struct Numbers(BTreeSet<u16>);

impl Numbers {
    pub(super) fn read(store: &LockedStore<'_>) -> Result<Self, Error> {
        Ok(Self(store.list::<MachineRecord>()?.iter().map(|machine| machine.number).collect()))
    }

    /// Takes the smallest free number.
    pub(super) fn take(&mut self) -> Result<u16, Error> {
        let free = (1..=MACHINE_LIMIT).find(|number| !self.0.contains(number));
        let number = free.ok_or(Error::Full { limit: MACHINE_LIMIT })?;
        self.0.insert(number);
        Ok(number)
    }
}

/// The first failure to start or stop one of several machines. The others are still started or stopped.
#[derive(Default)]
pub(super) struct Failures(Option<RunnerError>);

impl Failures {
    pub(super) fn add(&mut self, result: Result<(), Error>) -> Result<(), Error> {
        match result {
            Err(Error::Runner(error)) => {
                self.0.get_or_insert(error);
                Ok(())
            }
            result => result,
        }
    }

    /// The first failure.
    pub(super) fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), |error| Err(error.into()))
    }
}

pub(super) fn machines_in_pool(store: &LockedStore<'_>, pool: &PoolName) -> Result<Vec<MachineRecord>, Error> {
    let mut machines = store.list::<MachineRecord>()?;
    machines.retain(|machine| machine.membership.as_ref().is_some_and(|membership| membership.pool == *pool));
    machines.sort_by_key(|machine| machine.membership.as_ref().map(|membership| membership.instance));
    Ok(machines)
}

impl<P: MachineRunner> Local<P> {
    /// Starts and removes machines until they match the pool's document. A pool that does not exist is not an error.
    pub(super) async fn reconcile(&self, pool: &PoolName) -> Result<(), Error> {
        loop {
            let name = pool.clone();
            let Some(pending) = self.locked_then_swept(move |state, store| state.prepare(store, &name)).await? else {
                return Ok(());
            };
            let mut failures = Failures::default();
            for machine in &pending.start {
                failures.add(self.start_machine(machine).await.map(drop))?;
            }
            for machine in &pending.remove {
                failures.add(self.remove_machine(machine).await)?;
            }
            failures.into_result()?;
            if pending.remove.is_empty() {
                return Ok(());
            }
        }
    }

    /// Starts a machine. Returns false if it does not exist.
    pub(super) async fn start_machine(&self, key: &MachineKey) -> Result<bool, Error> {
        let _lock = self.lock_machine(key).await?;
        let wanted = key.clone();
        let config = self.locked(move |state, store| {
            let Some(mut machine) = store.find::<MachineRecord>(wanted.as_str())? else { return Ok(None) };
            if !(machine.on && machine.disk.written && !machine.deallocated) {
                machine.on = true;
                machine.disk.written = true;
                machine.deallocated = false;
                store.put(&machine)?;
            }
            Ok(Some((state.machine_config(&machine), machine.provisioned)))
        });
        let Some((config, provisioned)) = config.await? else { return Ok(false) };
        self.runner.start(&config).await?;
        if !provisioned {
            let done = key.clone();
            self.locked(move |_, store| {
                let Some(mut machine) = store.find::<MachineRecord>(done.as_str())? else { return Ok(()) };
                machine.provisioned = true;
                store.put(&machine)
            })
            .await?;
        }
        Ok(true)
    }

    /// Stops a machine and removes it with its disk. A machine that does not exist is not an error.
    pub(super) async fn remove_machine(&self, key: &MachineKey) -> Result<(), Error> {
        let _lock = self.lock_machine(key).await?;
        // Its disk is removed, so it need not be shut down cleanly.
        self.runner.stop(key, PowerDown::Deallocate).await?;
        let gone = key.clone();
        self.locked_then_swept(move |_, store| store.remove::<MachineRecord>(gone.as_str())).await
    }
}
