//! Disks as chains of layers. A machine writes only to the top layer of its disk; the layers below are shared and never change.

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

/// The limit of layers below a snapshot. `mount(2)` accepts one page of options, in which the path of each layer has about 100 characters,
/// and every lookup of a missing file searches each layer.
pub(crate) const LAYER_LIMIT: usize = 16;

/// The name of a folder in `layers/`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LayerId(String);

impl FromStr for LayerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if !text.is_empty() && text.len() <= 36 && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::Invalid { noun: "layer", text: text.to_owned(), rule: "hexadecimal digits and `-`" })
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

/// Immutable layers, lowest first, on a base outside of the state folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) base: PathBuf,
    pub(crate) layers: Vec<LayerId>,
}

/// The disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) chain: Chain,
    /// The layer that the machine writes to.
    pub(crate) top: LayerId,
    /// Whether the machine was started with this top layer.
    pub(crate) written: bool,
}

/// Creates and removes layers, under the lock of the store.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub(crate) qemu_img: QemuImg,
}

impl Layers {
    /// Creates a disk with an empty top layer on a chain.
    pub(crate) fn fresh(
        &self,
        store: &LockedStore<'_>,
        kind: MachineKind,
        chain: Chain,
        top: LayerId,
    ) -> Result<Disk, Error> {
        self.create(store.files(), kind, &chain, &top)?;
        Ok(Disk { chain, top, written: false })
    }

    /// Turns the content of a disk into an immutable chain, and puts a new top layer on it. Nothing is copied. The machine must be off.
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

    fn create(&self, files: &Files, kind: MachineKind, chain: &Chain, id: &LayerId) -> Result<(), Error> {
        let folder = format!("layers/{id}");
        files.folder(&folder, 0o700)?;
        match kind {
            MachineKind::Nspawn => {
                files.folder(&format!("{folder}/work"), 0o700)?;
                files.folder(&format!("{folder}/upper"), 0o755)?;
                // The root of an overlay has the mode of the upper folder.
                let upper = files.path(format!("{folder}/upper"));
                let mode = fs::metadata(&chain.base)
                    .map_err(Error::io("read the metadata of", &chain.base))?
                    .permissions()
                    .mode();
                let set = fs::set_permissions(&upper, fs::Permissions::from_mode(mode & 0o7777));
                set.map_err(Error::io("set the mode of", &upper))
            }
            MachineKind::Qemu => {
                files.count_change()?;
                self.qemu_img.create(&files.path(format!("{folder}/disk.qcow2")), &backing(chain))
            }
        }
    }

    /// The files of a disk.
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

    /// Moves layers that no document refers to into `trash`. [`empty_trash`] removes them after the lock is released.
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

/// Removes the layers that [`Layers::sweep`] moved. That can take long, so it runs without the lock.
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

/// The backing file of a new qcow2 file on a chain. The path is relative, so that the state folder can be moved.
fn backing(chain: &Chain) -> PathBuf {
    match chain.layers.last() {
        Some(id) => PathBuf::from(format!("../{id}/disk.qcow2")),
        None => chain.base.clone(),
    }
}
