//! What no port has a verb for: making pools and images, and what `kiln local` shows.

use std::collections::BTreeSet;
use std::path::Path;

use kiln_types::node_name_of;
use kiln_types::{ImageSource, InstanceId, PoolName, PowerDown, Secret, Tags};
use serde::Serialize;

use super::tend::Each;
use super::{Local, Shelf};
use crate::error::Error;
use crate::ids;
use crate::power::{Body, Kind, MachineKey, Power};
use crate::records::{ImageRecord, Kept, MachineRecord, PoolRecord, instance_id};
use crate::size::Size;

/// A pool to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name. Its nodes are named after it, so that it has no capital letter.
    pub name: PoolName,
    /// The id of its image: `/local/images/NAME`, or a line or version of a gallery.
    pub image: String,
    /// How many machines it has.
    pub capacity: u32,
    /// How large they are.
    pub size: Size,
    /// What they read at first boot.
    pub custom_data: Option<Secret>,
    pub tags: Tags,
}

/// A machine as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    pub name: MachineKey,
    /// Its pool and its place there.
    pub place: Option<(PoolName, InstanceId)>,
    /// Its host name.
    pub computer_name: String,
    /// The id that its firmware shows.
    pub vm_id: String,
    /// How it is run.
    pub kind: Kind,
    /// What its addresses are derived from.
    pub number: u16,
    /// What it was made from.
    pub image: ImageSource,
    /// How large it is.
    pub size: Size,
    /// Whether it should be on.
    pub wanted_on: bool,
    /// Layers below what it writes, without the base.
    pub layers: usize,
    pub tags: Tags,
}

impl<P: Power> Local<P> {
    /// Gives a base a name. It is a folder with a root (nspawn) or a disk file (QEMU); it stays where it is and must not change any more.
    pub async fn import_image(&self, name: &str, kind: Kind, base: &Path) -> Result<(), Error> {
        let (name, base) = (name.to_owned(), base.to_owned());
        self.held(move |_, held| {
            let base = base.canonicalize().map_err(Error::io("find", &base))?;
            let fits = match kind {
                // A colon or a comma would end the name in the options of a mount.
                Kind::Nspawn => base.is_dir() && !base.to_string_lossy().contains([':', ',', '\\']),
                Kind::Qemu => base.is_file(),
            };
            if !fits {
                let rule = "a folder without `:`, `,` or `\\` in its path for nspawn, a file for QEMU";
                return Err(Error::BadText { noun: "base", text: base.display().to_string(), rule });
            }
            let image = ImageRecord { name: name.clone(), kind, base };
            match held.find::<ImageRecord>(&name)? {
                Some(found) if found == image => Ok(()),
                Some(found) => {
                    let found = found.base.display().to_string();
                    Err(Error::InTheWay { noun: "image", name, found })
                }
                None => held.put(&image),
            }
        })
        .await
    }

    /// Makes a pool with its machines, and switches them on. Repeated after it was killed half way, it is completed.
    pub async fn create_pool(&self, spec: &PoolSpec) -> Result<(), Error> {
        let wanted = spec.clone();
        self.held(move |_, held| {
            let image = ids::source(&wanted.image)?;
            if let Some(found) = held.find::<PoolRecord>(wanted.name.as_str())? {
                if found.image == image && found.size == wanted.size && !found.deleting {
                    return Ok(());
                }
                let found = if found.deleting {
                    "it is being deleted".to_owned()
                } else {
                    format!("made from another image or of size {}", found.size)
                };
                return Err(Error::InTheWay { noun: "pool", name: wanted.name.to_string(), found });
            }
            must_name_nodes(&wanted.name)?;
            Shelf::resolve(held, &image)?;
            let mut pool = PoolRecord {
                name: wanted.name,
                revision: 1,
                size: wanted.size,
                next: 0,
                members: BTreeSet::new(),
                model: 1,
                image,
                custom_data: wanted.custom_data.map(Kept),
                tags: wanted.tags,
                deleting: false,
            };
            pool.add_members(wanted.capacity);
            held.put(&pool)
        })
        .await?;
        self.tend(&spec.name).await
    }

    /// Removes a pool with its machines. One that is not there is removed already.
    pub async fn delete_pool(&self, pool: &PoolName) -> Result<(), Error> {
        let name = pool.clone();
        self.held(move |_, held| {
            let Some(mut pool) = held.find::<PoolRecord>(name.as_str())? else { return Ok(()) };
            pool.deleting = true;
            pool.members.clear();
            pool.revision += 1;
            held.put(&pool)
        })
        .await?;
        self.tend(pool).await
    }

    /// All machines, of pools and alone.
    pub async fn machines(&self) -> Result<Vec<Shown>, Error> {
        let machines = self.held(|_, held| held.list::<MachineRecord>()).await?;
        Ok(machines.into_iter().map(shown).collect())
    }

    /// What a machine is made of.
    pub async fn body(&self, machine: &MachineKey) -> Result<Body, Error> {
        let key = machine.clone();
        self.held(move |shelf, held| Ok(shelf.body(&held.get(key.as_str())?))).await
    }

    /// Completes what was left half done, and switches on what should be on: after the world that held the machines ended.
    pub async fn restore(&self) -> Result<(), Error> {
        let pools = self.held(|_, held| held.list::<PoolRecord>()).await?;
        let mut all = Each::default();
        for pool in pools {
            all.add(self.tend(&pool.name).await)?;
        }
        for machine in self.machines().await?.into_iter().filter(|machine| machine.wanted_on) {
            all.add(self.switch_on(&machine.name).await.map(drop))?;
        }
        all.done()
    }

    /// Switches every machine off, in good order. Those that should be on still should.
    pub async fn suspend(&self) -> Result<(), Error> {
        let mut all = Each::default();
        for machine in self.machines().await? {
            let _alone = self.alone(&machine.name).await?;
            all.add(self.power.switch_off(&machine.name, PowerDown::KeepHardware).await.map_err(Error::from))?;
        }
        all.done()
    }
}

/// A node's name is a host name: at most 63 characters, none of them a capital or a `_`.
fn must_name_nodes(pool: &PoolName) -> Result<(), Error> {
    let node = node_name_of(pool, &instance_id(0))?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if node.len() <= 63 && node.chars().all(plain) {
        return Ok(());
    }
    let rule = "nodes are named after it: at most 57 small letters, digits or `-`";
    Err(Error::BadText { noun: "pool", text: pool.to_string(), rule })
}

fn shown(machine: MachineRecord) -> Shown {
    Shown {
        place: machine.place.map(|place| (place.pool.clone(), place.id())),
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
