//! Folder listings, glob patterns and mount points.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::{FileKind, Root, text};

/// The names in a folder, sorted.
pub(crate) fn names(folder: Result<Dir, Errno>, path: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |errno| Error::io("list", text(path), errno);
    let mut names = Vec::new();
    for entry in folder.map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(OsStr::from_bytes(name).to_owned()),
        }
    }
    names.sort_unstable();
    Ok(names)
}

impl Root {
    /// The paths that match a pattern, sorted. `*` matches any characters except `/` and a leading dot; `**` at the end matches all files below, of the
    /// same file system.
    pub fn glob(&self, pattern: &str) -> Result<Vec<PathBuf>, Error> {
        let mut found = vec![PathBuf::from("/")];
        for part in pattern.trim_start_matches('/').split('/') {
            let mut next = Vec::new();
            for folder in found {
                if part == "**" {
                    let device = self.stat(&folder)?.map(|stat| stat.st_dev);
                    self.files_below(&folder, device, &mut next)?;
                } else if part.contains('*') {
                    let names = self.names(&folder)?.into_iter();
                    let names = names.filter(|name| fits(part.as_bytes(), name.as_bytes()));
                    next.extend(names.map(|name| folder.join(name)));
                } else {
                    let path = folder.join(part);
                    if self.kind(&path)?.is_some() {
                        next.push(path);
                    }
                }
            }
            found = next;
        }
        Ok(found)
    }

    fn files_below(&self, folder: &Path, device: Option<u64>, into: &mut Vec<PathBuf>) -> Result<(), Error> {
        for path in self.names(folder)?.into_iter().map(|name| folder.join(name)) {
            let Some(stat) = self.stat(&path)? else { continue };
            match FileKind::from_stat(&stat) {
                FileKind::Folder if Some(stat.st_dev) == device => self.files_below(&path, device, into)?,
                FileKind::File => into.push(path),
                _ => {}
            }
        }
        Ok(())
    }

    /// The first mount point at or below a path, relative to the root. The mount table is read, because bind mounts within one file system do not
    /// change the device number.
    pub fn mount_in(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        let path = path.as_ref();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(None) };
        let fd = match rustix::fs::openat(&parent, name, flags, rustix::fs::Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::io("stat", text(path), errno)),
        };
        let unknown = |source| Error::io("find mounts in", text(path), source);
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(unknown)?;
        let table = std::fs::read("/proc/self/mountinfo").map_err(unknown)?;
        let mount = table.split(|byte| *byte == b'\n').filter_map(mount_point).find(|mount| mount.starts_with(&real));
        let shown = |mount: PathBuf| match mount.strip_prefix(self.path()) {
            Ok(rest) => format!("/{}", rest.to_string_lossy()),
            Err(_) => text(&mount),
        };
        Ok(mount.map(shown))
    }
}

/// The mount point in a line of `mountinfo`, where special characters are escaped as octal numbers.
pub(crate) fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits: Vec<u8> = bytes.by_ref().take(3).collect();
            text.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?);
        } else {
            text.push(byte);
        }
    }
    Some(OsString::from_vec(text).into())
}

/// Whether a name matches a pattern with `*`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if name.starts_with(b".") && !pattern.starts_with(b".") {
        return false;
    }
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let parts: Vec<&[u8]> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == *part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters_except_a_leading_dot() {
        let fits = |pattern: &str, name: &str| fits(pattern.as_bytes(), name.as_bytes());
        assert!(fits("ssh_host_*_key", "ssh_host_rsa_key"));
        assert!(!fits("ssh_host_*_key", "ssh_host_rsa_key.pub"));
        assert!(!fits("ab*ba", "aba"), "prefix and suffix do not overlap");
        assert!(fits("a*b*c", "abbc") && !fits("a*b*c", "acb"));
        assert!(fits("*", "x") && !fits("*", ".x") && fits(".*", ".x"));
        assert!(fits("plain", "plain") && !fits("plain", "plainer"));
    }

    #[test]
    fn escaped_mount_points_are_decoded() {
        let line = r"36 35 98:0 / /mnt/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line.as_bytes()), Some(r"/mnt/a b\c".into()));
        assert_eq!(mount_point(b"36 35"), None);
    }
}
