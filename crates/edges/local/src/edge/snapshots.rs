//! Snapshots of disks.

use kiln_types::{Provisioning, Snapshot, SnapshotName, SnapshotRequest};

use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::layers::{Chain, Disk, LAYER_LIMIT, LayerId, Layers};
use crate::records::{MachineRecord, SnapshotRecord};
use crate::runner::{DiskPath, MachineKey, MachineKind, MachineRunner};
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
            return self.take_live_snapshot(&key, request).await;
        }
        let request = request.clone();
        self.blocking(move |state| state.snapshot(&request)).await?;
        // The joined layers may have no other user.
        self.locked_then_swept(|_, _| Ok(())).await
    }

    /// Creates a snapshot of a running virtual machine, as a cloud does: of what its disk contains at one moment. The caller makes sure that
    /// this is worth keeping.
    ///
    /// The machine's record names the new top layer before QEMU uses it. If this process dies in between, the machine goes on with the old
    /// layer, and its next start continues on top of that one. The other order could lose the new layer.
    async fn take_live_snapshot(&self, key: &MachineKey, request: &SnapshotRequest) -> Result<(), Error> {
        let (name, running) = (key.clone(), Error::Running { machine: key.clone() });
        let switched = self.locked(move |state, store| {
            let mut machine: MachineRecord = store.get(name.as_str())?;
            if machine.kind != MachineKind::Qemu {
                return Err(running);
            }
            let (chain, disk) = state.layers.freeze(store, machine.kind, &machine.disk, state.new_layer()?)?;
            machine.disk = Disk { written: true, ..disk };
            store.put(&machine)?;
            Ok((chain, Layers::path(store.files(), machine.kind, &machine.disk)))
        });
        let (chain, DiskPath::Qcow2(file)) = switched.await? else {
            return Err(Error::Running { machine: key.clone() });
        };
        self.runner.switch_disk(key, &file).await?;
        let request = request.clone();
        self.locked(move |state, store| {
            store.put(&SnapshotRecord {
                name: request.name,
                source: request.disk,
                kind: MachineKind::Qemu,
                chain,
                created: state.now(),
                tags: request.tags,
            })
        })
        .await
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
