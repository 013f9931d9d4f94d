//! Disks as chains of layers. Only the top of a disk is written; everything below is shared and never changes.

mod flatten;
mod qemu_img;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::Files;
use crate::records::{MachineRecord, SnapshotRecord, VersionRecord};
use crate::runner::{DiskPath, MachineKind};
use crate::store::LockedStore;

pub use qemu_img::QemuImg;

/// The most layers that a version may stand on. `mount(2)` takes one page of options, in which each layer has its path of about a hundred
/// characters, and every look-up of a file that is not there asks each layer.
pub(crate) const LAYER_LIMIT: usize = 16;

/// A folder of `layers/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LayerId(String);

impl FromStr for LayerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if !text.is_empty() && text.len() <= 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::BadText { noun: "layer", text: text.to_owned(), rule: "hexadecimal digits and `-`" })
    }
}

impl TryFrom<String> for LayerId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<LayerId> for String {
    fn from(id: LayerId) -> Self {
        id.0
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Layers that never change, lowest first, on a base outside the state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) base: PathBuf,
    pub(crate) layers: Vec<LayerId>,
}

/// The disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) chain: Chain,
    /// What the machine writes.
    pub(crate) top: LayerId,
    /// Whether the machine was on since it has this top.
    pub(crate) written: bool,
}

/// Makes and removes layers, under the lock of the store.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub(crate) qemu_img: QemuImg,
}

impl Layers {
    /// An empty disk on a chain.
    pub(crate) fn fresh(
        &self,
        store: &LockedStore<'_>,
        kind: MachineKind,
        chain: Chain,
        top: LayerId,
    ) -> Result<Disk, Error> {
        self.make(store.files(), kind, &chain, &top)?;
        Ok(Disk { chain, top, written: false })
    }

    /// What is on a disk now, as a chain that stays so, and the disk with an empty top above it. Nothing is copied. The machine is off.
    pub(crate) fn freeze(
        &self,
        store: &LockedStore<'_>,
        kind: MachineKind,
        disk: &Disk,
        new_top: LayerId,
    ) -> Result<(Chain, Disk), Error> {
        if !disk.written {
            return Ok((disk.chain.clone(), disk.clone()));
        }
        let mut chain = disk.chain.clone();
        chain.layers.push(disk.top.clone());
        let disk = self.fresh(store, kind, chain.clone(), new_top)?;
        Ok((chain, disk))
    }

    fn make(&self, files: &Files, kind: MachineKind, chain: &Chain, id: &LayerId) -> Result<(), Error> {
        let folder = format!("layers/{id}");
        files.folder(&folder, 0o700)?;
        match kind {
            MachineKind::Nspawn => {
                files.folder(&format!("{folder}/work"), 0o700)?;
                files.folder(&format!("{folder}/upper"), 0o755)?;
                // The root of an overlay has the mode of its upper folder.
                let upper = files.path(format!("{folder}/upper"));
                let mode = fs::metadata(&chain.base).map_err(Error::io("look at", &chain.base))?.permissions().mode();
                let set = fs::set_permissions(&upper, fs::Permissions::from_mode(mode & 0o7777));
                set.map_err(Error::io("set the mode of", &upper))
            }
            MachineKind::Qemu => {
                files.count_change()?;
                self.qemu_img.create(&files.path(format!("{folder}/disk.qcow2")), &backing(chain))
            }
        }
    }

    /// Where the disk of a machine is.
    pub(crate) fn path(files: &Files, kind: MachineKind, disk: &Disk) -> DiskPath {
        let top = files.path(format!("layers/{}", disk.top));
        match kind {
            MachineKind::Nspawn => DiskPath::Folders {
                lower: folders(files, &disk.chain),
                upper: top.join("upper"),
                work: top.join("work"),
            },
            MachineKind::Qemu => DiskPath::Qcow2(top.join("disk.qcow2")),
        }
    }

    /// Takes layers that no document names out of the way; [`empty_trash`] removes them when the lock is free again.
    pub(crate) fn sweep(store: &LockedStore<'_>) -> Result<(), Error> {
        let mut used: BTreeSet<LayerId> = BTreeSet::new();
        for machine in store.list::<MachineRecord>()? {
            used.extend(machine.disk.chain.layers);
            used.insert(machine.disk.top);
        }
        used.extend(store.list::<SnapshotRecord>()?.into_iter().flat_map(|snapshot| snapshot.chain.layers));
        used.extend(store.list::<VersionRecord>()?.into_iter().flat_map(|version| version.chain.layers));
        let files = store.files();
        for name in files.names("layers")? {
            if name.parse().is_ok_and(|id: LayerId| !used.contains(&id)) {
                files.rename(&format!("layers/{name}"), &format!("trash/{name}"))?;
            }
        }
        Ok(())
    }
}

/// Removes what [`Layers::sweep`] took out of the way. It may be much, and everybody else may go on meanwhile.
pub(crate) fn empty_trash(files: &Files) -> Result<(), Error> {
    for name in files.names("trash")? {
        files.remove_tree(&format!("trash/{name}"))?;
    }
    Ok(())
}

fn folders(files: &Files, chain: &Chain) -> Vec<PathBuf> {
    let own = chain.layers.iter().map(|id| files.path(format!("layers/{id}/upper")));
    std::iter::once(chain.base.clone()).chain(own).collect()
}

/// What the next file of a chain names as the one below it: relative to its own folder, so that the state folder can be moved.
fn backing(chain: &Chain) -> PathBuf {
    match chain.layers.last() {
        Some(id) => PathBuf::from(format!("../{id}/disk.qcow2")),
        None => chain.base.clone(),
    }
}
