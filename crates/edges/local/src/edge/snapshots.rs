//! Copies of disks.

use kiln_types::{Provisioning, Snapshot, SnapshotName, SnapshotRequest};

use super::{Local, Shelf};
use crate::error::Error;
use crate::ids;
use crate::layers::{Chain, LayerId, MOST_LAYERS};
use crate::power::Power;
use crate::records::{MachineRecord, SnapshotRecord};
use crate::store::Held;

impl Shelf {
    /// Whether a copy is there already. One of another disk is in the way.
    fn is_captured(held: &Held<'_>, request: &SnapshotRequest) -> Result<bool, Error> {
        match held.find::<SnapshotRecord>(request.name.as_str())? {
            None => Ok(false),
            Some(found) if found.source == request.disk => Ok(true),
            Some(found) => {
                let (name, found) = (request.name.to_string(), format!("a copy of {}", found.source));
                Err(Error::InTheWay { noun: "snapshot", name, found })
            }
        }
    }

    /// Joins the layers of a disk where they are too many, so that neither it nor what is made from it grows without end.
    fn shorten(&self, machine: &MachineRecord) -> Result<Option<LayerId>, Error> {
        let disk = &machine.disk;
        if !disk.written || disk.chain.layers.len() < MOST_LAYERS {
            return Ok(None);
        }
        let mut chain = disk.chain.clone();
        chain.layers.push(disk.top.clone());
        let joined = self.new_layer()?;
        self.layers.join(self.store.files(), machine.kind, &chain, &joined)?;
        Ok(Some(joined))
    }

    /// The machine is off, and nobody else can switch it on.
    fn snapshot(&self, request: &SnapshotRequest) -> Result<(), Error> {
        let key = ids::disk(&request.disk)?;
        let held = self.store.hold()?;
        if Self::is_captured(&held, request)? {
            return Ok(());
        }
        let machine: MachineRecord = held.get(key.as_str())?;
        drop(held);
        let _build = self.store.build_lock()?;
        let joined = self.shorten(&machine)?;

        // Joining takes long, and others wrote meanwhile: everything but the disk may have changed.
        let held = self.store.hold()?;
        if Self::is_captured(&held, request)? {
            return Ok(());
        }
        let mut machine: MachineRecord = held.get(key.as_str())?;
        let (chain, disk) = match joined {
            Some(joined) => {
                held.files().rename(&format!("building/{joined}"), &format!("layers/{joined}"))?;
                let chain = Chain { base: machine.disk.chain.base.clone(), layers: vec![joined] };
                (chain.clone(), self.layers.fresh(&held, machine.kind, chain, self.new_layer()?)?)
            }
            None => self.layers.freeze(&held, machine.kind, &machine.disk, self.new_layer()?)?,
        };
        // First the machine: what it was writing is shared from now on, and it must not write to it again whatever happens next.
        if machine.disk != disk {
            machine.disk = disk;
            held.put(&machine)?;
        }
        held.put(&SnapshotRecord {
            name: request.name.clone(),
            source: request.disk.clone(),
            kind: machine.kind,
            chain,
            created: self.now(),
            tags: request.tags.clone(),
        })
    }
}

impl<P: Power> Local<P> {
    pub(super) async fn take_snapshot(&self, request: &SnapshotRequest) -> Result<(), Error> {
        let key = ids::disk(&request.disk)?;
        let _alone = self.alone(&key).await?;
        let wanted = request.clone();
        if self.held(move |_, held| Shelf::is_captured(held, &wanted)).await? {
            return Ok(());
        }
        if self.power.is_on(&key).await? {
            return Err(Error::Running { machine: key });
        }
        let request = request.clone();
        self.shelf(move |shelf| shelf.snapshot(&request)).await?;
        // What was joined is needed by others at most.
        self.swept(|_, _| Ok(())).await
    }

    pub(super) async fn look_for_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        let name = name.clone();
        let found = self.held(move |_, held| held.find::<SnapshotRecord>(name.as_str())).await?;
        Ok(found.map(|snapshot| Snapshot {
            id: ids::of_snapshot(&snapshot.name),
            name: snapshot.name,
            source: Some(snapshot.source),
            provisioning: Provisioning::Succeeded,
            created: Some(snapshot.created),
            tags: snapshot.tags,
        }))
    }

    pub(super) async fn delete_snapshot(&self, name: &SnapshotName) -> Result<(), Error> {
        let name = name.clone();
        self.swept(move |_, held| held.remove::<SnapshotRecord>(name.as_str())).await
    }
}
