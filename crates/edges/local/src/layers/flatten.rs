//! Joining a long chain: its layers become one, on the same base.
//!
//! A layer of overlayfs marks a removed file with a whiteout (a character device 0:0) and a folder that hides lower ones as opaque. Both
//! marks stay in the joined layer, because the base below it stays.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_machines::command;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};

use super::{Chain, LayerId, Layers};
use crate::error::Error;
use crate::files::Files;
use crate::runner::MachineKind;

const OPAQUE: &str = "trusted.overlay.opaque";

impl Layers {
    /// Joins a chain into a layer in `building/`, which the caller moves to `layers/`. The caller holds the build lock.
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
                fs::create_dir(&upper).map_err(Error::io("create folder", &upper))?;
                for layer in &chain.layers {
                    merge(&files.path(format!("layers/{layer}/upper")), &upper)?;
                }
                Ok(())
            }
            (_, None) => Ok(()),
        }
    }
}

/// Merges a layer into `target`, which has the layers below it.
fn merge(layer: &Path, target: &Path) -> Result<(), Error> {
    let mut hides = Vec::new();
    clear(layer, target, &mut hides)?;
    let mut copy = Command::new("cp");
    copy.args(["-a", "--remove-destination", "--no-target-directory"]).arg(layer).arg(target);
    command::run(&mut copy)?;
    for folder in hides {
        let set = lsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty());
        set.map_err(|error| Error::io("mark as opaque", &folder)(error.into()))?;
    }
    Ok(())
}

/// Removes from `target` what the layer hides and a copy would not replace. A folder that replaces a file must also hide a folder of that
/// name in the base, which the file hid.
fn clear(layer: &Path, target: &Path, hides: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(layer).map_err(Error::io("list", layer))? {
        let entry = entry.map_err(Error::io("list", layer))?;
        let (above, below) = (entry.path(), target.join(entry.file_name()));
        let existing = match fs::symlink_metadata(&below) {
            Ok(existing) => existing,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("read the metadata of", &below)(error)),
        };
        let folder = entry.file_type().map_err(Error::io("read the metadata of", &above))?.is_dir();
        match (folder, existing.is_dir()) {
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
