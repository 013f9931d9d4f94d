//! Snapshots of disks.

use kiln_types::{Provisioning, Snapshot, SnapshotName, SnapshotRequest};

use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::layers::{Chain, LAYER_LIMIT, LayerId};
use crate::records::{MachineRecord, SnapshotRecord};
use crate::runner::MachineRunner;
use crate::store::LockedStore;

impl State {
    /// Whether the snapshot exists. A snapshot of another disk with this name is an error.
    fn has_snapshot(store: &LockedStore<'_>, request: &SnapshotRequest) -> Result<bool, Error> {
        match store.find::<SnapshotRecord>(request.name.as_str())? {
            None => Ok(false),
            Some(found) if found.source == request.disk => Ok(true),
            Some(found) => {
                let (name, existing) = (request.name.to_string(), format!("it is a snapshot of `{}`", found.source));
                Err(Error::AlreadyExists { noun: "snapshot", name, existing })
            }
        }
    }

    /// Joins the layers of a disk if there are too many, so that the chains of the disk and its clones stay short.
    fn join_long_chain(&self, machine: &MachineRecord) -> Result<Option<LayerId>, Error> {
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

    /// Creates a snapshot. The machine is off, and the caller holds its lock.
    fn snapshot(&self, request: &SnapshotRequest) -> Result<(), Error> {
        let key = ids::parse_disk_id(&request.disk)?;
        let store = self.store.lock()?;
        if Self::has_snapshot(&store, request)? {
            return Ok(());
        }
        let machine: MachineRecord = store.get(key.as_str())?;
        drop(store);
        let _build = self.store.build_lock()?;
        let joined = self.join_long_chain(&machine)?;

        // Joining takes long and the store was not locked meanwhile: everything but the disk may have changed.
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
        // The machine's record comes first: its old top layer is shared from now on, and it must never write to it again, whatever fails next.
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
        self.blocking(move |state| state.snapshot(&request)).await?;
        // The joined layers may have no other user.
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
