//! SELinux labels of what kilnd creates. Without a policy in the root nothing is labelled.
//!
//! The kernel gives a new file the label of its folder, which is wrong for many paths (`/etc/shadow`, `/etc/resolv.conf`), so the label is set before the file
//! gets its name. On a disk that is not the running system the kernel sets none at all.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use kiln_node_plan::selinux::{
    ATTRIBUTE, CONFIG, EntryKind, FileContexts, Lists, add_aliases, aliases_path, policy_folder, remove_aliases,
};
use kiln_node_plan::{DesiredFile, layout};
use rustix::fs::{OFlags, XattrFlags};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::write::{Durability, TEMPORARY};
use crate::os::root::{FileKind, Root};

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

    /// The list of aliases with those of kiln's paths, if the root has a policy whose list lacks some of them.
    pub(crate) fn missing_aliases(&self) -> Result<Option<DesiredFile>, Error> {
        let Some((path, text)) = self.aliases()? else { return Ok(None) };
        Ok(add_aliases(&text).map(|text| DesiredFile::new(&path, text.into_bytes(), 0o644)))
    }

    /// Removes the aliases of kiln's paths from the list, except that of an existing swap file, and the list if it is empty then.
    pub(crate) fn remove_aliases(&self) -> Result<(), Error> {
        let Some((path, text)) = self.aliases()? else { return Ok(()) };
        let keep_swap_file = self.kind(layout::SWAP_FILE)?.is_some();
        match remove_aliases(&text, keep_swap_file) {
            Some(text) if text.is_empty() => self.remove(&path, Durability::Now).map(drop),
            Some(text) => self.write_all(&[DesiredFile::new(&path, text.into_bytes(), 0o644)], Durability::Now),
            None => Ok(()),
        }
    }

    /// The path and the text of the list of aliases. None without SELinux.
    fn aliases(&self) -> Result<Option<(String, String)>, Error> {
        let config = self.read_if_exists(CONFIG)?.unwrap_or_default();
        let Some(folder) = policy_folder(&String::from_utf8_lossy(&config)) else { return Ok(None) };
        if self.kind(format!("{folder}/file_contexts"))?.is_none() {
            return Ok(None);
        }
        let path = aliases_path(&folder);
        let text = self.read_if_exists(&path)?.unwrap_or_default();
        Ok(Some((path, String::from_utf8_lossy(&text).into_owned())))
    }

    /// Labels the packaged units. Their package was perhaps installed before the policy had their alias, or by a tool that sets no labels.
    pub(crate) fn label_packaged_units(&self) -> Result<(), Error> {
        let folder = layout::PACKAGED_UNITS;
        let mut paths = vec![folder.into()];
        for pattern in ["*", "*/*"] {
            paths.extend(self.glob(&format!("{folder}/{pattern}"))?);
        }
        for path in paths {
            let kind = match self.kind(&path)? {
                Some(FileKind::File) => EntryKind::File,
                Some(FileKind::Folder) => EntryKind::Folder,
                _ => continue,
            };
            let path = path.to_string_lossy();
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = self.open_at(&*path, flags).map_err(|errno| Error::io("open", &*path, errno))?;
            self.label(open, &path, kind)?;
        }
        Ok(())
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
            // Also where `kilnd enable` did not add them to the policy.
            subs: add_aliases(&subs).as_deref().unwrap_or(&subs),
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
