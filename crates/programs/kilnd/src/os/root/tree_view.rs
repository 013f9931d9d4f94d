//! The root folder as `kiln_node_plan::check_image` reads it.

use kiln_node_plan::check_image::{Entry, EntryKind, Tree};
use rustix::fs::{OFlags, fgetxattr, fstat};

use crate::os::root::{FileKind, Root};

/// The attribute with the SELinux label.
const LABEL: &str = "security.selinux";
/// Larger than any label.
const LABEL_SIZE: usize = 512;

impl Tree for Root {
    fn entry(&self, path: &str) -> Option<Entry> {
        let file = self.open_at(path, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        let stat = fstat(&file).ok()?;
        let kind = match FileKind::from_stat(&stat) {
            FileKind::File => EntryKind::File,
            FileKind::Folder => EntryKind::Folder,
            FileKind::Link | FileKind::Other => EntryKind::Other,
        };
        Some(Entry { kind, mode: stat.st_mode & 0o7777, size: u64::try_from(stat.st_size).unwrap_or_default() })
    }

    fn link(&self, path: &str) -> Option<String> {
        self.read_link(path).ok().flatten()?.into_os_string().into_string().ok()
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.read_if_exists(path).ok().flatten()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        self.text_names(folder).unwrap_or_default()
    }

    fn label(&self, path: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = self.open_at(path, flags).ok()?;
        let mut buffer = [0; LABEL_SIZE];
        let length = fgetxattr(&file, LABEL, &mut buffer[..]).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\0').to_owned())
    }
}
