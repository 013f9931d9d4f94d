//! Host name, accounts and disks.

use super::draft::Draft;
use super::{Account, Deferred, Mount, kubelet_root};

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
    let device = draft.facts.image.temporary_disk.clone();
    // After each deallocation the disk may be another, empty one, so the machine must also boot without it.
    draft.fstab(&format!("{device} {path} {filesystem} defaults,nofail,x-systemd.makefs 0 2"));
    let below = |folder: &str| folder.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let early = below(&kubelet_root(draft.spec)) || below(&draft.spec.runtime.root);
    let mount = Mount { device, path: path.to_owned(), filesystem: filesystem.to_owned(), early };
    draft.desired.deferred.push(Deferred::Mount(mount));
}
