//! Host name, accounts and disks.

use super::draft::Draft;
use super::{Account, Deferred, Mount, kubelet_root};

/// Names that udev gives to a temporary disk, in the order in which they are tried. A disk of more than 2 TiB has a reserved partition first.
/// The rules of waagent and azure-vm-utils make the first two, those of cloud-init the third. Sizes with local NVMe disks have no SCSI one;
/// azure-vm-utils numbers them from 1.
pub const TEMPORARY_DISKS: [&str; 4] = [
    "/dev/disk/azure/resource-part2",
    "/dev/disk/azure/resource-part1",
    "/dev/disk/cloud/azure_resource-part1",
    "/dev/disk/azure/local/by-index/1",
];

/// The folder and the prefix of the names that udev itself gives to local NVMe disks, for images without azure-vm-utils.
pub const LOCAL_NVME: (&str, &str) = ("/dev/disk/by-id", "nvme-Microsoft_NVMe_Direct_Disk");

/// Chooses the temporary disk. `exists` says whether a device exists, `by_id` are the names in the folder of [`LOCAL_NVME`].
pub fn choose_temporary_disk(exists: impl Fn(&str) -> bool, by_id: &[String]) -> Option<String> {
    if let Some(found) = TEMPORARY_DISKS.iter().find(|device| exists(device)) {
        return Some((*found).to_owned());
    }
    let (folder, prefix) = LOCAL_NVME;
    let is_disk = |name: &&String| name.starts_with(prefix) && !name.contains("-part");
    by_id.iter().filter(is_disk).min().map(|name| format!("{folder}/{name}"))
}

/// The default login shell.
const SHELL: &str = "/bin/bash";

pub(super) fn render(draft: &mut Draft<'_>) {
    let platform = &draft.spec.platform;
    draft.desired.host_name = Some(platform.host_name.clone()).filter(|name| !name.is_empty());
    draft.desired.report_ready = platform.report_ready;
    for user in &platform.users {
        let mut groups = user.groups.clone();
        groups.sort();
        groups.dedup();
        let is_bad =
            groups.iter().any(|group| group.is_empty() || group.contains([':', ',', '\n']) || group.starts_with('-'));
        let shell = if user.shell.is_empty() { SHELL } else { &user.shell };
        let path = format!("spec.platform.users[{}]", user.name);
        draft.reject_if(is_bad, format!("{path}.groups"), "group names must not be empty or contain `:` or `,`");
        let is_bad = !shell.starts_with('/') || shell.contains([':', '\n']);
        draft.reject_if(is_bad, format!("{path}.shell"), format!("`{shell}` is not an absolute path"));
        draft.reject_if(user.name == "root", &path, "a document may not configure root");
        draft.desired.accounts.push(Account {
            name: user.name.clone(),
            ssh_keys: user.ssh_keys.clone(),
            groups,
            shell: shell.to_owned(),
            sudo: user.sudo,
        });
    }
    if platform.grow_root == Some(true) {
        draft.desired.deferred.push(Deferred::GrowRoot);
    }
    temporary_disk(draft);
}

fn temporary_disk(draft: &mut Draft<'_>) {
    let disk = &draft.spec.platform.temporary_disk;
    let path = disk.mount_path.trim_end_matches('/');
    draft.reject_if(
        disk.kubelet_root && path.is_empty(),
        "spec.platform.temporaryDisk.kubeletRoot",
        "requires `mountPath`",
    );
    draft.reject_if(
        disk.kubelet_root && !draft.spec.kubelet.root.is_empty(),
        "spec.platform.temporaryDisk.kubeletRoot",
        "conflicts with `spec.kubelet.root`",
    );
    if path.is_empty() {
        return;
    }
    let filesystem = if disk.filesystem.is_empty() { "ext4" } else { &disk.filesystem };
    let known = ["ext4", "xfs", "btrfs"].contains(&filesystem);
    draft.reject_if(
        !known,
        "spec.platform.temporaryDisk.filesystem",
        format!("unknown file system `{filesystem}`; expected `ext4`, `xfs` or `btrfs`"),
    );
    draft.reject_if(
        path.contains(char::is_whitespace),
        "spec.platform.temporaryDisk.mountPath",
        "must not contain white space",
    );
    let device = match (&draft.facts.image.temporary_disk, &draft.facts.temporary_disk) {
        (named, _) if !named.is_empty() => named.clone(),
        (_, Some(found)) => found.clone(),
        // The usual one; mounting it fails with a message.
        (_, None) => TEMPORARY_DISKS[1].to_owned(),
    };
    // After each deallocation the disk may be another, empty one, so the machine must also boot without it.
    draft.fstab(&format!("{device} {path} {filesystem} defaults,nofail,x-systemd.makefs 0 2"));
    let below = |folder: &str| folder.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let early = below(&kubelet_root(draft.spec)) || below(&draft.spec.runtime.root);
    let mount = Mount { device, path: path.to_owned(), filesystem: filesystem.to_owned(), early };
    draft.desired.deferred.push(Deferred::Mount(mount));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_disk_is_found_by_the_names_of_scsi_and_nvme_disks() {
        let with = |devices: &[&str], by_id: &[&str]| {
            let by_id: Vec<String> = by_id.iter().map(|name| (*name).to_owned()).collect();
            choose_temporary_disk(|device| devices.contains(&device), &by_id)
        };
        let scsi = "/dev/disk/azure/resource-part1";
        assert_eq!(with(&[scsi], &[]).as_deref(), Some(scsi));
        assert_eq!(with(&[scsi, TEMPORARY_DISKS[0]], &[]).as_deref(), Some(TEMPORARY_DISKS[0]), "more than 2 TiB");
        let nvme = "/dev/disk/azure/local/by-index/1";
        assert_eq!(with(&[nvme], &[]).as_deref(), Some(nvme));
        assert_eq!(with(&[scsi, nvme], &[]).as_deref(), Some(scsi), "sizes with both use the SCSI disk");
        let names = [
            "nvme-MSFT_NVMe_Accelerator_v1.0_SN",
            "nvme-Microsoft_NVMe_Direct_Disk_v2_b",
            "nvme-Microsoft_NVMe_Direct_Disk_v2_a-part1",
            "nvme-Microsoft_NVMe_Direct_Disk_v2_a",
        ];
        assert_eq!(with(&[], &names), Some(format!("/dev/disk/by-id/{}", names[3])));
        assert_eq!(with(&[], &names[..1]), None, "the OS disk and data disks are remote");
    }
}
