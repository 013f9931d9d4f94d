//! The temporary disk of an Azure VM, before systemd mounts it.
//!
//! Azure formats a SCSI disk with NTFS and puts a warning on it, also again after each deallocation. `x-systemd.makefs` formats only disks
//! without a file system. So kilnd removes the signature of a file system that is certainly Azure's, and systemd does the rest. The rule is
//! cloud-init's, and stricter: the label has to be Azure's too, and a disk whose content cannot be determined is left alone.

mod ntfs;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use kiln_node_plan::Mount;

use crate::apply::Error;
use crate::node::Node;
use crate::sources::Wait as _;
use ntfs::{Volume, is_ntfs, read_volume};

/// The label that Azure gives to the file system.
const LABEL: &str = "Temporary Storage";
/// The names on a disk that was never used, in lower case.
const UNUSED: [&str; 2] = ["dataloss_warning_readme.txt", "system volume information"];
/// How many bytes at the start are overwritten: the boot sector, and what other file systems have there.
const WIPED: usize = 64 << 10;
/// How long to wait for a device that the kubelet needs. The kernel finds disks within seconds; systemd itself would wait for 90 s.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Poll interval while waiting for the device.
const POLL: Duration = Duration::from_millis(100);

/// The change that kilnd made to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It is empty, or has a file system that is not NTFS.
    Unchanged,
    /// Azure's file system was removed.
    Wiped,
}

/// Why kilnd does not mount a temporary disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error(
        "the temporary disk `{device}` does not exist\nhint: use a VM size with a temporary disk, or remove `spec.platform.temporaryDisk`"
    )]
    Missing { device: String },
    #[error("cannot open the temporary disk `{device}`")]
    Open {
        device: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "the temporary disk `{device}` has an NTFS that is not Azure's unused one ({reason}), so it was not reformatted\nhint: save its files and delete its file system with `wipefs --all {device}`"
    )]
    InUse { device: String, reason: String },
    #[error("cannot remove the file system of the temporary disk `{device}`")]
    Wipe {
        device: String,
        #[source]
        source: io::Error,
    },
}

/// Prepares a disk for systemd.
pub(super) fn prepare(node: &Node, mount: &Mount) -> Result<Preparation, Error> {
    let path = node.root.path().join(mount.device.trim_start_matches('/'));
    let started = node.wait.now();
    while mount.early && !path.exists() && node.wait.now().saturating_sub(started) < TIMEOUT {
        node.wait.sleep(POLL);
    }
    let done = clean(&path, &mount.device).map_err(Error::Disk)?;
    if done == Preparation::Wiped {
        node.log.info(&format!("removed Azure's empty NTFS from the temporary disk {}", mount.device));
    }
    Ok(done)
}

/// Removes the file system of a disk if it is Azure's and was never used.
pub fn clean(path: &Path, device: &str) -> Result<Preparation, DiskError> {
    let device = device.to_owned();
    // O_EXCL fails if the disk is mounted.
    let flags = i32::try_from(rustix::fs::OFlags::EXCL.bits()).unwrap_or_default();
    let disk = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
        Ok(disk) => disk,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DiskError::Missing { device }),
        Err(source) => return Err(DiskError::Open { device, source }),
    };
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        disk.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    if !is_ntfs(&read) {
        return Ok(Preparation::Unchanged);
    }
    match read_volume(&read) {
        Ok(volume) => unused(&volume).map_err(|reason| DiskError::InUse { device: device.clone(), reason })?,
        Err(error) => return Err(DiskError::InUse { device, reason: error.to_string() }),
    }
    wipe(&disk).map_err(|source| DiskError::Wipe { device, source })?;
    Ok(Preparation::Wiped)
}

/// Whether an NTFS is one that Azure made and that was never used; else why not.
fn unused(volume: &Volume) -> Result<(), String> {
    if volume.label != LABEL {
        return Err(format!("its label is `{}` instead of `{LABEL}`", volume.label));
    }
    let foreign: Vec<&String> =
        volume.names.iter().filter(|name| !UNUSED.contains(&name.to_lowercase().as_str())).collect();
    match foreign.as_slice() {
        [] => Ok(()),
        [name] => Err(format!("it contains `{name}`")),
        [name, rest @ ..] => Err(format!("it contains `{name}` and {} more", rest.len())),
    }
}

fn wipe(disk: &File) -> io::Result<()> {
    disk.write_all_at(&vec![0; WIPED], 0)?;
    disk.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(label: &str, names: &[&str]) -> Volume {
        Volume { label: label.to_owned(), names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn only_azures_empty_file_system_is_unused() {
        for names in
            [&[][..], &["DATALOSS_WARNING_README.txt"], &["System Volume Information", "dataloss_warning_readme.TXT"]]
        {
            assert_eq!(unused(&volume(LABEL, names)), Ok(()), "{names:?}");
        }
        assert_eq!(unused(&volume(LABEL, &["pagefile.sys"])), Err("it contains `pagefile.sys`".to_owned()));
        assert_eq!(unused(&volume(LABEL, &["a", "b", "c"])), Err("it contains `a` and 2 more".to_owned()));
        let label = unused(&volume("Data", &[])).expect_err("another label");
        assert_eq!(label, "its label is `Data` instead of `Temporary Storage`");
    }

    #[test]
    fn disk_without_ntfs_is_left_to_systemd() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        for content in [vec![], vec![0; 4096], super::super::file_system::tests::ext4(1 << 20)] {
            std::fs::write(&path, &content).expect("written");
            assert_eq!(clean(&path, "/dev/x").expect("left alone"), Preparation::Unchanged);
            assert_eq!(std::fs::read(&path).expect("read"), content);
        }
        let missing = clean(&folder.path().join("none"), "/dev/x").expect_err("missing");
        assert!(missing.to_string().starts_with("the temporary disk `/dev/x` does not exist\nhint: "), "{missing}");
    }
}
