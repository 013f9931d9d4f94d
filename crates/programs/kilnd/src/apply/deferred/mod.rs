//! Work that is deferred until the kubelet runs: swap, mounts, growing the root file system, and further host keys.
//!
//! systemd mounts disks and swap files from the lines that are in `fstab` by then. Growing a partition and generating RSA host keys use the
//! tools of the image.

mod file_system;
mod grow;
mod host_keys;
mod swap_file;
mod temporary_disk;

use kiln_node_plan::selinux::EntryKind;

use crate::os::systemd::{JobOutcome, Systemd};
use kiln_node_plan::{Mount, unit_for_path};

use crate::apply::services::TIMEOUT;
use crate::apply::{Error, ServiceError};
use crate::node::Node;

pub use grow::{grow_root, is_root_grown};
pub use host_keys::generate_host_keys;
pub use temporary_disk::{DiskError, Preparation, clean};

/// Replaces the swap file; 0 removes it. The kernel cannot resize one that is in use.
pub fn swap(node: &Node, path: &str, mib: u64) -> Result<(), Error> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    let unit = unit_for_path(path, "swap");
    systemd.daemon_reload().map_err(failed)?;
    systemd.stop(&unit).map_err(failed)?;
    let file = node.root.path().join(path.trim_start_matches('/'));
    if mib == 0 {
        return match std::fs::remove_file(&file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::Io { path: file, source }),
            _ => Ok(()),
        };
    }
    let made = swap_file::make(&file, mib).map_err(|source| Error::Io { path: file, source })?;
    node.root.label(&made, path, EntryKind::File)?;
    start(&mut systemd, &unit)
}

/// Mounts a disk by its line in `fstab`, after the file system of an unused temporary disk was removed.
pub fn mount(node: &Node, mount: &Mount) -> Result<(), Error> {
    let Some(mut systemd) = client(node) else { return Ok(()) };
    let preparation = temporary_disk::prepare(node, mount)?;
    let unit = unit_for_path(&mount.path, "mount");
    let known = systemd.unit(&unit).map_err(failed)?;
    if known.load != "loaded" || known.stale {
        systemd.daemon_reload().map_err(failed)?;
    }
    if preparation == Preparation::Wiped {
        // systemd may have looked at the disk already in this boot, and would not look again.
        systemd.stop(&makefs_unit(&mount.device)).map_err(failed)?;
    }
    let mounted = start(&mut systemd, &unit);
    mounted.map_err(|error| match error {
        Error::Deferred(source) if mount.early => {
            Error::EarlyMount { device: mount.device.clone(), path: mount.path.clone(), source: source.into() }
        }
        error => error,
    })
}

/// The unit that formats a device with `x-systemd.makefs`.
fn makefs_unit(device: &str) -> String {
    format!("systemd-makefs@{}", unit_for_path(device, "service"))
}

fn client(node: &Node) -> Option<Systemd> {
    node.systemd.as_ref().map(|socket| Systemd::new(socket, TIMEOUT))
}

fn start(systemd: &mut Systemd, unit: &str) -> Result<(), Error> {
    let result = match systemd.start(unit).map_err(failed)? {
        JobOutcome::Started => return Ok(()),
        JobOutcome::Skipped => "skipped".to_owned(),
        JobOutcome::Failed { result } => result,
    };
    Err(failed(ServiceError::Failed { unit: unit.to_owned(), result }))
}

fn failed(error: impl Into<ServiceError>) -> Error {
    Error::Deferred(error.into())
}
