//! Copies of disks.

use kiln_types::{Provisioning, Snapshot, SnapshotName, SnapshotRequest};

use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::layers::{Chain, LAYER_LIMIT, LayerId};
use crate::records::{MachineRecord, SnapshotRecord};
use crate::runner::MachineRunner;
use crate::store::LockedStore;

impl State {
    /// Whether a copy is there already. One of another disk is in the way.
    fn has_snapshot(store: &LockedStore<'_>, request: &SnapshotRequest) -> Result<bool, Error> {
        match store.find::<SnapshotRecord>(request.name.as_str())? {
            None => Ok(false),
            Some(found) if found.source == request.disk => Ok(true),
            Some(found) => {
                let (name, found) = (request.name.to_string(), format!("a copy of {}", found.source));
                Err(Error::InTheWay { noun: "snapshot", name, found })
            }
        }
    }

    /// Joins the layers of a disk where they are too many, so that neither it nor what is provisioned from it grows without end.
    fn shorten(&self, machine: &MachineRecord) -> Result<Option<LayerId>, Error> {
        let disk = &machine.disk;
        if !disk.written || disk.chain.layers.len() < LAYER_LIMIT {
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
        let key = ids::parse_disk_id(&request.disk)?;
        let store = self.store.lock()?;
        if Self::has_snapshot(&store, request)? {
            return Ok(());
        }
        let machine: MachineRecord = store.get(key.as_str())?;
        drop(store);
        let _build = self.store.build_lock()?;
        let joined = self.shorten(&machine)?;

        // Joining takes long, and others wrote meanwhile: everything but the disk may have changed.
        let store = self.store.lock()?;
        if Self::has_snapshot(&store, request)? {
            return Ok(());
        }
        let mut machine: MachineRecord = store.get(key.as_str())?;
        let (chain, disk) = match joined {
            Some(joined) => {
                store.files().rename(&format!("building/{joined}"), &format!("layers/{joined}"))?;
                let chain = Chain { base: machine.disk.chain.base.clone(), layers: vec![joined] };
                (chain.clone(), self.layers.fresh(&store, machine.kind, chain, self.new_layer()?)?)
            }
            None => self.layers.freeze(&store, machine.kind, &machine.disk, self.new_layer()?)?,
        };
        // First the machine: what it was writing is shared from now on, and it must not write to it again whatever happens next.
        if machine.disk != disk {
            machine.disk = disk;
            store.put(&machine)?;
        }
        store.put(&SnapshotRecord {
            name: request.name.clone(),
            source: request.disk.clone(),
            kind: machine.kind,
            chain,
            created: self.now(),
            tags: request.tags.clone(),
        })
    }
}

impl<P: MachineRunner> Local<P> {
    pub(super) async fn take_snapshot(&self, request: &SnapshotRequest) -> Result<(), Error> {
        let key = ids::parse_disk_id(&request.disk)?;
        let _lock = self.lock_machine(&key).await?;
        let wanted = request.clone();
        if self.locked(move |_, store| State::has_snapshot(store, &wanted)).await? {
            return Ok(());
        }
        if self.runner.is_running(&key).await? {
            return Err(Error::Running { machine: key });
        }
        let request = request.clone();
        self.state(move |state| state.snapshot(&request)).await?;
        // What was joined is needed by others at most.
        self.locked_then_swept(|_, _| Ok(())).await
    }

    pub(super) async fn read_snapshot(&self, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        let name = name.clone();
        let found = self.locked(move |_, store| store.find::<SnapshotRecord>(name.as_str())).await?;
        Ok(found.map(|snapshot| Snapshot {
            id: ids::snapshot_id(&snapshot.name),
            name: snapshot.name,
            source: Some(snapshot.source),
            provisioning: Provisioning::Succeeded,
            created: Some(snapshot.created),
            tags: snapshot.tags,
        }))
    }

    pub(super) async fn delete_snapshot(&self, name: &SnapshotName) -> Result<(), Error> {
        let name = name.clone();
        self.locked_then_swept(move |_, store| store.remove::<SnapshotRecord>(name.as_str())).await
    }
}
