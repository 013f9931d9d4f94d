//! What a node does for its platform: name, people, disks.

use super::draft::Draft;
use super::{Account, Late, Mount, kubelet_root};

/// Logs in people who do not say by what.
const SHELL: &str = "/bin/bash";

pub(super) fn render(draft: &mut Draft<'_>) {
    let platform = &draft.spec.platform;
    draft.desired.host_name = Some(platform.host_name.clone()).filter(|name| !name.is_empty());
    draft.desired.report_ready = platform.report_ready.unwrap_or(false);
    for user in &platform.users {
        let mut groups = user.groups.clone();
        groups.sort();
        groups.dedup();
        let odd =
            groups.iter().any(|group| group.is_empty() || group.contains([':', ',', '\n']) || group.starts_with('-'));
        let shell = if user.shell.is_empty() { SHELL } else { &user.shell };
        let path = format!("spec.platform.users[{}]", user.name);
        draft.unfit_when(odd, format!("{path}.groups"), "a group has a name without `:` and `,`");
        let odd = !shell.starts_with('/') || shell.contains([':', '\n']);
        draft.unfit_when(odd, format!("{path}.shell"), format!("`{shell}` is no absolute path"));
        draft.unfit_when(user.name == "root", &path, "root is not set up by documents");
        draft.desired.accounts.push(Account {
            name: user.name.clone(),
            ssh_keys: user.ssh_keys.clone(),
            groups,
            shell: shell.to_owned(),
            sudo: user.sudo,
        });
    }
    if platform.grow_root == Some(true) {
        draft.desired.late.push(Late::GrowRoot);
    }
    temporary_disk(draft);
}

fn temporary_disk(draft: &mut Draft<'_>) {
    let disk = &draft.spec.platform.temporary_disk;
    let path = disk.mount_path.trim_end_matches('/');
    draft.unfit_when(
        disk.kubelet_root && path.is_empty(),
        "spec.platform.temporaryDisk.kubeletRoot",
        "the disk must be mounted for that: mountPath",
    );
    draft.unfit_when(
        disk.kubelet_root && !draft.spec.kubelet.root.is_empty(),
        "spec.platform.temporaryDisk.kubeletRoot",
        "spec.kubelet.root says another folder",
    );
    if path.is_empty() {
        return;
    }
    let filesystem = if disk.filesystem.is_empty() { "ext4" } else { &disk.filesystem };
    let known = ["ext4", "xfs", "btrfs"].contains(&filesystem);
    draft.unfit_when(
        !known,
        "spec.platform.temporaryDisk.filesystem",
        format!("`{filesystem}` is none of ext4, xfs, btrfs"),
    );
    draft.unfit_when(path.contains(char::is_whitespace), "spec.platform.temporaryDisk.mountPath", "no spaces");
    let device = draft.facts.image.temporary_disk.clone();
    // The disk may be another one after every stop, and empty: the machine starts without it as well.
    draft.fstab(&format!("{device} {path} {filesystem} defaults,nofail,x-systemd.makefs 0 2"));
    let below = |folder: &str| folder.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let early = below(&kubelet_root(draft.spec)) || below(&draft.spec.runtime.root);
    let mount = Mount { device, path: path.to_owned(), filesystem: filesystem.to_owned(), early };
    draft.desired.late.push(Late::Mount(mount));
}
