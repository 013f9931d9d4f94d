//! SELinux labels of what kilnd creates. Without a policy in the root nothing is labelled.
//!
//! The kernel gives a new file the label of its folder, which is wrong for many paths (`/etc/shadow`, `/etc/resolv.conf`), so the label is set before the file
//! gets its name. On a disk that is not the running system the kernel sets none at all.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use kiln_node_plan::selinux::{ATTRIBUTE, CONFIG, EntryKind, FileContexts, Lists, policy_folder};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::Root;
use crate::os::root::write::TEMPORARY;

/// The labels of a root's policy, read at the first write.
#[derive(Debug, Default)]
pub(crate) struct Labels(OnceLock<Option<FileContexts>>);

impl Root {
    /// Labels an open file or folder that will have this path.
    pub(crate) fn label(&self, open: impl AsFd, path: &str, kind: EntryKind) -> Result<(), Error> {
        self.set_label(path, kind, |label| rustix::fs::fsetxattr(open.as_fd(), ATTRIBUTE, label, XattrFlags::empty()))
    }

    /// Labels a link, which cannot be opened for that.
    pub(crate) fn label_link(&self, parent: &OwnedFd, name: &str, path: &str) -> Result<(), Error> {
        self.set_label(path, EntryKind::Link, |label| {
            let link = format!("/proc/self/fd/{}/{name}", parent.as_raw_fd());
            rustix::fs::lsetxattr(link, ATTRIBUTE, label, XattrFlags::empty())
        })
    }

    fn set_label(&self, path: &str, kind: EntryKind, set: impl Fn(&[u8]) -> Result<(), Errno>) -> Result<(), Error> {
        let Some(contexts) = self.labels.0.get_or_init(|| self.read_contexts()) else { return Ok(()) };
        let Some(label) = contexts.label(&final_path(path), kind) else { return Ok(()) };
        // The attribute includes a final zero.
        let value = [label.as_bytes(), b"\0"].concat();
        self.ops.act(Op::Attributes, "set the security label of", path, || match set(&value) {
            // The file system stores no labels.
            Err(Errno::OPNOTSUPP) => Ok(()),
            // A user without privileges works on a folder. The tool that makes an image of it sets all labels.
            Err(Errno::PERM) if !self.is_host => Ok(()),
            done => done,
        })
    }

    /// The labels of the policy in use. None without SELinux; a list that cannot be read counts as missing.
    fn read_contexts(&self) -> Option<FileContexts> {
        let read = |path: &str| {
            let bytes = self.read_if_exists(path).ok().flatten()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let list = format!("{}/file_contexts", policy_folder(&read(CONFIG)?)?);
        let policy = read(&list)?;
        let [home_folders, local, subs, subs_dist] = ["homedirs", "local", "subs", "subs_dist"]
            .map(|ending| read(&format!("{list}.{ending}")).unwrap_or_default());
        Some(FileContexts::parse(Lists {
            policy: &policy,
            home_folders: &home_folders,
            local: &local,
            subs: &subs,
            subs_dist: &subs_dist,
        }))
    }
}

/// A path with the final names of its components instead of temporary ones.
fn final_path(path: &str) -> String {
    let name = |part: &'_ str| -> String {
        let inner = part.strip_prefix('.').and_then(|part| part.strip_suffix(TEMPORARY));
        inner.unwrap_or(part).to_owned()
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_that_of_the_final_path() {
        assert_eq!(
            final_path("/etc/kiln/generations/.3-h.kiln-new/config.json"),
            "/etc/kiln/generations/3-h/config.json"
        );
        assert_eq!(final_path("/etc/.hidden"), "/etc/.hidden");
    }
}
