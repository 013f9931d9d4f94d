//! A folder with the root file system of an image. No path and no link leads out of it.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use kiln_node_plan::check_image::{Entry, EntryKind, Tree};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fgetxattr, fstat, open, openat2, readlinkat};
use rustix::io::Errno;

/// Everything that the check reads is smaller.
const LARGEST: u64 = 8 << 20;
/// How often a lookup is retried when a component was renamed meanwhile.
const RETRIES: u32 = 32;

/// The root folder of an image.
#[derive(Debug)]
pub(super) struct Folder {
    root: OwnedFd,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: open(path, flags, Mode::empty())? })
    }

    fn at(&self, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let attempt = || openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), inside);
        (0..RETRIES).map(|_| attempt()).find(|opened| !matches!(opened, Err(Errno::AGAIN)))?.ok()
    }

    /// Opens a file or folder without waiting for pipes and devices.
    fn readable(&self, path: &str) -> Option<OwnedFd> {
        self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }
}

impl Tree for Folder {
    fn entry(&self, path: &str) -> Option<Entry> {
        let stat = fstat(&self.at(path, OFlags::PATH)?).ok()?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            _ => EntryKind::Other,
        };
        Some(Entry { kind, mode: stat.st_mode & 0o7777, size: u64::try_from(stat.st_size).unwrap_or_default() })
    }

    fn link(&self, path: &str) -> Option<String> {
        let file = self.at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        readlinkat(&file, "", Vec::new()).ok().map(|target| target.to_string_lossy().into_owned())
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.entry(path).filter(|entry| entry.kind == EntryKind::File)?;
        let mut bytes = Vec::new();
        std::fs::File::from(self.readable(path)?).take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let Some(entries) =
            self.at(folder, OFlags::RDONLY | OFlags::DIRECTORY).and_then(|folder| Dir::new(folder).ok())
        else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != "." && name != "..").collect();
        names.sort_unstable();
        names
    }

    fn label(&self, path: &str) -> Option<String> {
        let mut buffer = [0; 512];
        let length = fgetxattr(self.readable(path)?, "security.selinux", &mut buffer[..]).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).trim_end_matches('\0').to_owned())
    }
}
