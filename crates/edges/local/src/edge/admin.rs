//! Operations that only `kiln local` has: creating pools and images, and listing machines.

use std::collections::BTreeSet;
use std::path::Path;

use kiln_types::node_name_of;
use kiln_types::{ImageSource, InstanceId, PoolName, PowerDown, Secret, SecretBytes, Tags};
use serde::Serialize;

use super::reconcile::Failures;
use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::records::{ImageRecord, MachineRecord, PoolRecord, StoredSecret, StoredUserData, instance_id};
use crate::runner::{MachineConfig, MachineKey, MachineKind, MachineRunner};
use crate::size::Size;

/// The description of a new pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// Node names start with it, so it has no capital letters.
    pub name: PoolName,
    /// The id of an image: `/local/images/NAME`, or that of an image definition or version in a gallery.
    pub image: String,
    pub capacity: u32,
    pub size: Size,
    /// Read by a machine at first boot.
    pub custom_data: Option<Secret>,
    /// Returned by the metadata service. A repeated `create_pool` replaces it in the pool and in its machines; empty keeps it.
    pub user_data: SecretBytes,
    pub tags: Tags,
}

/// A machine in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSummary {
    pub name: MachineKey,
    /// The pool and the instance id, for an instance of a pool.
    pub membership: Option<(PoolName, InstanceId)>,
    pub computer_name: String,
    /// The UUID that the firmware shows.
    pub vm_id: String,
    pub kind: MachineKind,
    /// Determines the addresses.
    pub number: u16,
    pub image: ImageSource,
    pub size: Size,
    /// Whether it should be running.
    pub wanted_on: bool,
    /// The number of layers between the base and the writable layer.
    pub layers: usize,
    pub tags: Tags,
}

impl<P: MachineRunner> Local<P> {
    /// Registers a base: a root folder (nspawn) or a disk file (QEMU). It is not copied, so it must not change or move.
    pub async fn import_image(&self, name: &str, kind: MachineKind, base: &Path) -> Result<(), Error> {
        let (name, base) = (name.to_owned(), base.to_owned());
        self.locked(move |_, store| {
            let base = base.canonicalize().map_err(Error::io("find", &base))?;
            let is_valid = match kind {
                // These characters separate the options of a mount.
                MachineKind::Nspawn => base.is_dir() && !base.to_string_lossy().contains([':', ',', '\\']),
                MachineKind::Qemu => base.is_file(),
            };
            if !is_valid {
                let rule = "a folder without `:`, `,` or `\\` in its path for nspawn, a file for QEMU";
                return Err(Error::Invalid { noun: "base", text: base.display().to_string(), rule });
            }
            let image = ImageRecord { name: name.clone(), kind, base };
            match store.find::<ImageRecord>(&name)? {
                Some(found) if found == image => Ok(()),
                Some(found) => {
                    let existing = format!("it is `{}`", found.base.display());
                    Err(Error::AlreadyExists { noun: "image", name, existing })
                }
                None => store.put(&image),
            }
        })
        .await
    }

    /// Creates a pool and starts its machines. If it was killed half-way, calling it again completes it.
    pub async fn create_pool(&self, spec: &PoolSpec) -> Result<(), Error> {
        let wanted = spec.clone();
        self.locked(move |_, store| {
            let image = ids::parse_image(&wanted.image)?;
            if let Some(found) = store.find::<PoolRecord>(wanted.name.as_str())? {
                if found.image == image && found.size == wanted.size && !found.deleting {
                    return State::replace_user_data(store, found, StoredUserData(wanted.user_data));
                }
                let existing = if found.deleting {
                    "it is being deleted".to_owned()
                } else {
                    format!("it has another image, or its size {} differs", found.size)
                };
                return Err(Error::AlreadyExists { noun: "pool", name: wanted.name.to_string(), existing });
            }
            require_node_names(&wanted.name)?;
            State::resolve(store, &image)?;
            let mut pool = PoolRecord {
                name: wanted.name,
                revision: 1,
                size: wanted.size,
                next: 0,
                members: BTreeSet::new(),
                model: 1,
                image,
                custom_data: wanted.custom_data.map(StoredSecret),
                user_data: StoredUserData(wanted.user_data),
                tags: wanted.tags,
                deleting: false,
            };
            pool.add_members(wanted.capacity);
            store.put(&pool)
        })
        .await?;
        self.reconcile(&spec.name).await
    }

    /// Deletes a pool with its machines. A pool that does not exist is not an error.
    pub async fn delete_pool(&self, pool: &PoolName) -> Result<(), Error> {
        let name = pool.clone();
        self.locked(move |_, store| {
            let Some(mut pool) = store.find::<PoolRecord>(name.as_str())? else { return Ok(()) };
            pool.deleting = true;
            pool.members.clear();
            pool.revision += 1;
            store.put(&pool)
        })
        .await?;
        self.reconcile(pool).await
    }

    /// All machines, in pools and outside of them.
    pub async fn machines(&self) -> Result<Vec<MachineSummary>, Error> {
        let machines = self.locked(|_, store| store.list::<MachineRecord>()).await?;
        Ok(machines.into_iter().map(to_summary).collect())
    }

    /// The configuration with which a machine is started.
    pub async fn machine_config(&self, machine: &MachineKey) -> Result<MachineConfig, Error> {
        let key = machine.clone();
        self.locked(move |state, store| Ok(state.machine_config(&store.get(key.as_str())?))).await
    }

    /// Completes interrupted operations and starts every machine that should be running, as after the end of a sandbox.
    pub async fn restore(&self) -> Result<(), Error> {
        let pools = self.locked(|_, store| store.list::<PoolRecord>()).await?;
        let mut failures = Failures::default();
        for pool in pools {
            failures.add(self.reconcile(&pool.name).await)?;
        }
        for machine in self.machines().await?.into_iter().filter(|machine| machine.wanted_on) {
            failures.add(self.start_machine(&machine.name).await.map(drop))?;
        }
        failures.into_result()
    }

    /// Shuts down every machine. Those that should be running are started again by [`restore`](Self::restore).
    pub async fn suspend(&self) -> Result<(), Error> {
        let mut failures = Failures::default();
        for machine in self.machines().await? {
            let _lock = self.lock_machine(&machine.name).await?;
            failures.add(self.runner.stop(&machine.name, PowerDown::KeepHardware).await.map_err(Error::from))?;
        }
        failures.into_result()
    }
}

/// Refuses a pool whose node names would not be host names: at most 63 characters, without capital letters and `_`.
fn require_node_names(pool: &PoolName) -> Result<(), Error> {
    let node = node_name_of(pool, &instance_id(0))?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if node.len() <= 63 && node.chars().all(plain) {
        return Ok(());
    }
    let rule = "node names start with it, so it has at most 57 lower-case letters, digits or `-`";
    Err(Error::Invalid { noun: "pool", text: pool.to_string(), rule })
}

fn to_summary(machine: MachineRecord) -> MachineSummary {
    MachineSummary {
        membership: machine.membership.map(|membership| (membership.pool.clone(), membership.id())),
        name: machine.name,
        computer_name: machine.computer_name,
        vm_id: machine.vm_id,
        kind: machine.kind,
        number: machine.number,
        image: machine.image,
        size: machine.size,
        wanted_on: machine.on,
        layers: machine.disk.chain.layers.len(),
        tags: machine.tags,
    }
}
