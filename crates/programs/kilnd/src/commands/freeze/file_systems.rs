//! The file systems of the OS disk: which of them are frozen for a snapshot, and in which order.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::FreezeError;
use crate::os::mount_point;

/// The kinds of file systems that the kernel can freeze and whose device is a disk or a partition. All others are only written back: the
/// boot partition, for example, is vfat.
const FREEZABLE: [&str; 3] = ["ext3", "ext4", "xfs"];

/// One mount, from a line of `mountinfo`.
#[derive(Debug)]
struct Mount<'a> {
    point: String,
    device: &'a str,
    /// The folder of the file system that is mounted.
    folder: &'a str,
    kind: &'a str,
    is_writable: bool,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (ahead, behind) = line.split_once(" - ")?;
        let mut fields = ahead.split(' ').skip(2);
        let (device, folder) = (fields.next()?, fields.next()?);
        let mut behind = behind.split(' ');
        let (kind, options) = (behind.next()?, behind.nth(1)?);
        let is_writable = options.split(',').all(|option| option != "ro");
        Some(Self {
            point: mount_point(line.as_bytes())?.to_string_lossy().into_owned(),
            device,
            folder,
            kind,
            is_writable,
        })
    }
}

/// The mount points of the freezable file systems on the disk of `root`, relative to it, in the order in which they are frozen: `/` comes
/// last, because everything else needs it. `disks` names the disks of a device number.
pub(super) fn of_os_disk(
    mountinfo: &str,
    root: &Path,
    disks: impl Fn(&str) -> BTreeSet<String>,
) -> Result<Vec<String>, FreezeError> {
    let root = root.to_string_lossy();
    let base = root.trim_end_matches('/');
    let below = |point: &str| match point.strip_prefix(base)? {
        "" => Some("/".to_owned()),
        rest if rest.starts_with('/') => Some(rest.to_owned()),
        _ => None,
    };
    let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
    let unfit = |why: String| FreezeError::Root { path: root.to_string(), why };
    let Some(main) = mounts.iter().rfind(|mount| below(&mount.point).as_deref() == Some("/")) else {
        return Err(unfit("it is not a mount point".to_owned()));
    };
    // A folder of another file system: freezing it would stop the system around it, for example the host of a container.
    if main.folder != "/" {
        return Err(unfit(format!("it is the folder `{}` of a larger file system", main.folder)));
    }
    let own = disks(main.device);
    if !FREEZABLE.contains(&main.kind) || own.is_empty() {
        return Err(unfit(format!("a root file system of type `{}` cannot be frozen", main.kind)));
    }
    let mut chosen: Vec<(&str, String)> = vec![(main.device, "/".to_owned())];
    for mount in &mounts {
        let Some(point) = below(&mount.point) else { continue };
        let is_known = chosen.iter().any(|(device, _)| *device == mount.device);
        if !is_known && mount.is_writable && FREEZABLE.contains(&mount.kind) && !disks(mount.device).is_disjoint(&own) {
            chosen.push((mount.device, point));
        }
    }
    chosen.reverse();
    Ok(chosen.into_iter().map(|(_, point)| point).collect())
}

/// The disks that a block device is on: the disk of a partition, and those below a mapped device. Empty for a virtual device.
pub(super) fn disks_of(numbers: &Path, device: &str) -> BTreeSet<String> {
    let Ok(folder) = fs::canonicalize(numbers.join(device)) else { return BTreeSet::new() };
    disks_at(&folder)
}

fn disks_at(folder: &Path) -> BTreeSet<String> {
    let slaves: Vec<_> = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten().collect();
    if !slaves.is_empty() {
        return slaves
            .iter()
            .filter_map(|slave| fs::canonicalize(slave.path()).ok())
            .flat_map(|path| disks_at(&path))
            .collect();
    }
    let disk = if folder.join("partition").exists() { folder.parent().unwrap_or(folder) } else { folder };
    disk.file_name().map(|name| name.to_string_lossy().into_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
23 22 0:5 / /proc rw - proc proc rw
24 22 8:15 / /boot/efi rw - vfat /dev/sda15 rw
25 22 8:16 / /boot rw - ext4 /dev/sda16 rw
26 22 8:33 / /data rw - xfs /dev/sdc1 rw
27 22 253:0 / /var/lib/containerd rw - xfs /dev/mapper/os-containerd rw
28 22 8:1 /var/lib/kubelet/a /var/lib/kubelet/b rw - ext4 /dev/sda1 rw
29 22 8:17 / /usr/share/oem ro - ext4 /dev/sda17 ro
30 22 0:40 / /merged rw - overlay overlay rw
";

    fn disks(device: &str) -> BTreeSet<String> {
        let disk = match device {
            "8:33" => "sdc",
            "8:1" | "8:15" | "8:16" | "8:17" | "253:0" => "sda",
            _ => return BTreeSet::new(),
        };
        BTreeSet::from([disk.to_owned()])
    }

    fn frozen(mountinfo: &str, root: &str) -> Result<Vec<String>, String> {
        of_os_disk(mountinfo, Path::new(root), disks).map_err(|error| error.to_string())
    }

    #[test]
    fn writable_file_systems_of_the_os_disk_are_frozen_with_the_root_last() {
        assert_eq!(frozen(HOST, "/").unwrap(), ["/var/lib/containerd", "/boot", "/"]);
    }

    #[test]
    fn mounts_below_a_root_folder_are_named_as_the_node_sees_them() {
        let text = HOST.replace(" / / rw", " / /host rw").replace(" /boot", " /host/boot");
        assert_eq!(frozen(&text, "/host").unwrap(), ["/boot", "/"]);
        assert_eq!(frozen(&text, "/host/").unwrap(), ["/boot", "/"]);
        assert!(frozen(&text, "/hos").unwrap_err().contains("it is not a mount point"));
    }

    #[test]
    fn folder_of_a_larger_file_system_is_never_frozen() {
        let container = HOST.replace("8:1 / / rw", "8:1 /var/lib/machines/a / rw");
        let error = frozen(&container, "/").unwrap_err();
        assert!(error.contains("the folder `/var/lib/machines/a` of a larger file system"), "{error}");
    }

    #[test]
    fn virtual_and_unsupported_roots_are_refused() {
        let overlay = "30 1 0:40 / / rw - overlay overlay rw\n";
        assert!(frozen(overlay, "/").unwrap_err().contains("type `overlay` cannot be frozen"));
        let network = "30 1 0:40 / / rw - ext4 /dev/x rw\n";
        assert!(frozen(network, "/").unwrap_err().contains("cannot be frozen"), "its device is not a disk");
    }

    #[test]
    fn partitions_and_mapped_devices_are_on_a_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let block = folder.path().join("block");
        let make = |path: &str| fs::create_dir_all(block.join(path)).expect("made");
        make("sda/sda1");
        make("dm-0/slaves");
        fs::write(block.join("sda/sda1/partition"), "1\n").expect("written");
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(block.join(from), block.join(to)).expect("linked");
        link("sda/sda1", "dm-0/slaves/sda1");
        for (device, path) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("253:0", "dm-0")] {
            link(path, device);
            assert_eq!(disks_of(&block, device), BTreeSet::from(["sda".to_owned()]), "{device}");
        }
        assert!(disks_of(&block, "0:40").is_empty());
    }
}
