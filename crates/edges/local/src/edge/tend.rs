//! Makes the machines of a pool what its document says, and each machine what its own says.

use std::collections::BTreeSet;

use kiln_types::node_name_of;
use kiln_types::{ImageSource, PoolName, PowerDown, Protection};

use super::{Local, Shelf};
use crate::error::Error;
use crate::ids;
use crate::layers::Chain;
use crate::power::{Kind, MachineKey, Power, PowerError};
use crate::records::{ImageRecord, MachineRecord, Place, PoolRecord, VersionRecord, instance_id, version_key};
use crate::store::Held;

/// What a machine is made from: the exact image, how such machines are run, and the chain of its disk.
pub(super) struct Resolved {
    pub(super) image: ImageSource,
    pub(super) kind: Kind,
    pub(super) chain: Chain,
}

/// What is to be done for a pool.
struct Due {
    switch_on: Vec<MachineKey>,
    remove: Vec<MachineKey>,
}

impl Shelf {
    /// The exact image that a machine made now gets.
    pub(super) fn resolve(held: &Held<'_>, image: &ImageSource) -> Result<Resolved, Error> {
        match image {
            ImageSource::Other(id) => {
                let found: ImageRecord = held.get(ids::image(id)?)?;
                let chain = Chain { base: found.base, layers: Vec::new() };
                Ok(Resolved { image: image.clone(), kind: found.kind, chain })
            }
            ImageSource::ExactVersion(line, number) => {
                let found: VersionRecord = held.get(&version_key(line, number))?;
                Ok(Resolved { image: image.clone(), kind: found.kind, chain: found.chain })
            }
            ImageSource::Definition(line) => {
                let all = held.list::<VersionRecord>()?.into_iter();
                let usable = all.filter(|version| version.line == *line && !version.excluded);
                let Some(found) = usable.max_by(|a, b| a.number.cmp(&b.number)) else {
                    return Err(Error::NothingUsable { line: format!("{}/{}", line.gallery, line.definition) });
                };
                let image = ImageSource::ExactVersion(found.line, found.number);
                Ok(Resolved { image, kind: found.kind, chain: found.chain })
            }
            ImageSource::Marketplace(found) => {
                let text = format!("{}:{}:{}:{}", found.publisher, found.offer, found.sku, found.version);
                Err(Error::BadText { noun: "image", text, rule: "there is no market here; import a base" })
            }
        }
    }

    /// Writes down a machine for each member that has none, and says what is left to do.
    fn prepare(&self, held: &Held<'_>, name: &PoolName) -> Result<Option<Due>, Error> {
        let Some(pool) = held.find::<PoolRecord>(name.as_str())? else { return Ok(None) };
        let mut due = Due { switch_on: Vec::new(), remove: Vec::new() };
        for machine in of_pool(held, name)? {
            let Some(place) = &machine.place else { continue };
            if !pool.members.contains(&place.instance) {
                due.remove.push(machine.name);
            } else if !machine.made {
                due.switch_on.push(machine.name);
            }
        }
        let mut numbers = Numbers::of(held)?;
        for instance in &pool.members {
            let id = instance_id(*instance);
            let key = MachineKey::of_instance(name, &id);
            if held.find::<MachineRecord>(key.as_str())?.is_some() {
                continue;
            }
            let Resolved { image, kind, chain } = Self::resolve(held, &pool.image)?;
            held.put(&MachineRecord {
                name: key.clone(),
                revision: 1,
                place: Some(Place { pool: name.clone(), instance: *instance, model: pool.model }),
                computer_name: node_name_of(name, &id)?,
                vm_id: (self.options.new_id)(),
                kind,
                number: numbers.take()?,
                size: pool.size,
                disk: self.layers.fresh(held, kind, chain, self.new_layer()?)?,
                image,
                custom_data: pool.custom_data.clone(),
                protection: Protection::NONE,
                tags: pool.tags.clone(),
                on: true,
                deallocated: false,
                made: false,
            })?;
            due.switch_on.push(key);
        }
        if pool.deleting && due.remove.is_empty() {
            held.remove::<PoolRecord>(name.as_str())?;
        }
        Ok(Some(due))
    }
}

/// Addresses are derived from the number of a machine, in a network of a /16; a quarter of that is far beyond what one computer runs.
const MOST_MACHINES: u16 = 16_000;

/// The numbers of all machines.
pub(super) struct Numbers(BTreeSet<u16>);

impl Numbers {
    pub(super) fn of(held: &Held<'_>) -> Result<Self, Error> {
        Ok(Self(held.list::<MachineRecord>()?.iter().map(|machine| machine.number).collect()))
    }

    /// The smallest that no machine has.
    pub(super) fn take(&mut self) -> Result<u16, Error> {
        let free = (1..=MOST_MACHINES).find(|number| !self.0.contains(number));
        let number = free.ok_or(Error::Full { most: MOST_MACHINES })?;
        self.0.insert(number);
        Ok(number)
    }
}

/// What is done to several machines. One that cannot be switched does not keep the others from it.
#[derive(Default)]
pub(super) struct Each(Option<PowerError>);

impl Each {
    pub(super) fn add(&mut self, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(Error::Power(error)) => {
                self.0.get_or_insert(error);
                Ok(())
            }
            done => done,
        }
    }

    /// The first that could not be.
    pub(super) fn done(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), |error| Err(error.into()))
    }
}

pub(super) fn of_pool(held: &Held<'_>, pool: &PoolName) -> Result<Vec<MachineRecord>, Error> {
    let mut machines = held.list::<MachineRecord>()?;
    machines.retain(|machine| machine.place.as_ref().is_some_and(|place| place.pool == *pool));
    machines.sort_by_key(|machine| machine.place.as_ref().map(|place| place.instance));
    Ok(machines)
}

impl<P: Power> Local<P> {
    /// Makes a pool what its document says. A pool that does not exist is.
    pub(super) async fn tend(&self, pool: &PoolName) -> Result<(), Error> {
        loop {
            let name = pool.clone();
            let Some(due) = self.swept(move |shelf, held| shelf.prepare(held, &name)).await? else { return Ok(()) };
            let mut all = Each::default();
            for machine in &due.switch_on {
                all.add(self.switch_on(machine).await.map(drop))?;
            }
            for machine in &due.remove {
                all.add(self.remove_machine(machine).await)?;
            }
            all.done()?;
            if due.remove.is_empty() {
                return Ok(());
            }
        }
    }

    /// Switches a machine on, if it is still there.
    pub(super) async fn switch_on(&self, key: &MachineKey) -> Result<bool, Error> {
        let _alone = self.alone(key).await?;
        let wanted = key.clone();
        let body = self.held(move |shelf, held| {
            let Some(mut machine) = held.find::<MachineRecord>(wanted.as_str())? else { return Ok(None) };
            if !(machine.on && machine.disk.written && !machine.deallocated) {
                machine.on = true;
                machine.disk.written = true;
                machine.deallocated = false;
                held.put(&machine)?;
            }
            Ok(Some((shelf.body(&machine), machine.made)))
        });
        let Some((body, made)) = body.await? else { return Ok(false) };
        self.power.switch_on(&body).await?;
        if !made {
            let done = key.clone();
            self.held(move |_, held| {
                let Some(mut machine) = held.find::<MachineRecord>(done.as_str())? else { return Ok(()) };
                machine.made = true;
                held.put(&machine)
            })
            .await?;
        }
        Ok(true)
    }

    /// Switches a machine off and removes it with its disk. One that is not there is removed already.
    pub(super) async fn remove_machine(&self, key: &MachineKey) -> Result<(), Error> {
        let _alone = self.alone(key).await?;
        // Its disk goes; there is nothing that a clean end would keep.
        self.power.switch_off(key, PowerDown::Deallocate).await?;
        let gone = key.clone();
        self.swept(move |_, held| held.remove::<MachineRecord>(gone.as_str())).await
    }
}
