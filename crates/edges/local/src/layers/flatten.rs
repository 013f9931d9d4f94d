//! A long chain provisioned short: its layers in one, on the same base.
//!
//! overlayfs says in a layer that a name below it is gone (a character device 0:0, a whiteout) or that a folder hides what is below
//! (opaque). Both stay in the joined layer, because the base below it stays too.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};

use super::qemu_img::finished;
use super::{Chain, LayerId, Layers};
use crate::error::Error;
use crate::files::Files;
use crate::runner::MachineKind;

const OPAQUE: &str = "trusted.overlay.opaque";

impl Layers {
    /// Joins a chain into a layer that stands in `building/` until it is moved to its membership. Who calls it holds the lock of builds.
    pub(crate) fn join(&self, files: &Files, kind: MachineKind, chain: &Chain, id: &LayerId) -> Result<(), Error> {
        for left in files.names("building")? {
            files.remove_tree(&format!("building/{left}"))?;
        }
        files.folder(&format!("building/{id}"), 0o700)?;
        let target = files.path(format!("building/{id}"));
        files.count_change()?;
        match (kind, chain.layers.last()) {
            (MachineKind::Qemu, Some(last)) => {
                let from = files.path(format!("layers/{last}/disk.qcow2"));
                self.qemu_img.join(&from, &target.join("disk.qcow2"), &chain.base)
            }
            (MachineKind::Nspawn, Some(_)) => {
                let upper = target.join("upper");
                fs::create_dir(&upper).map_err(Error::io("make folder", &upper))?;
                for layer in &chain.layers {
                    merge(&files.path(format!("layers/{layer}/upper")), &upper)?;
                }
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }
}

/// Lays one layer over what `target` holds of those below it.
fn merge(layer: &Path, target: &Path) -> Result<(), Error> {
    let mut hides = Vec::new();
    clear(layer, target, &mut hides)?;
    let mut copy = Command::new("cp");
    copy.args(["-a", "--remove-destination", "--no-target-directory"]).arg(layer).arg(target);
    finished(copy)?;
    for folder in hides {
        let set = lsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty());
        set.map_err(|error| Error::io("mark as opaque", &folder)(error.into()))?;
    }
    Ok(())
}

/// Removes from `target` what the layer hides and a copy would not replace. A folder in membership of something else hides what the base has
/// of that name, as that did.
fn clear(layer: &Path, target: &Path, hides: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(layer).map_err(Error::io("list", layer))? {
        let entry = entry.map_err(Error::io("list", layer))?;
        let (above, below) = (entry.path(), target.join(entry.file_name()));
        let there = match fs::symlink_metadata(&below) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("look at", &below)(error)),
        };
        let folder = entry.file_type().map_err(Error::io("look at", &above))?.is_dir();
        match (folder, there.is_dir()) {
            (true, true) if !is_opaque(&above) => clear(&above, &below, hides)?,
            (_, true) => fs::remove_dir_all(&below).map_err(Error::io("remove", &below))?,
            (true, false) => {
                fs::remove_file(&below).map_err(Error::io("remove", &below))?;
                hides.push(below);
            }
            (false, false) => {}
        }
    }
    Ok(())
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0; 8];
    lgetxattr(folder, OPAQUE, &mut value[..]).is_ok_and(|length| value[..length] == *b"y")
}
