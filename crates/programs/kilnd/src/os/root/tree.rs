//! Folder listings, glob patterns and mount points.

use std::os::fd::AsRawFd;

use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::Root;

/// The names in a folder, sorted.
pub(crate) fn names(folder: Result<Dir, Errno>, path: &str) -> Result<Vec<String>, Error> {
    let failed = |errno| Error::io("list", path, errno);
    let mut names = Vec::new();
    for entry in folder.map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match entry.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) => names.push(name.to_owned()),
            // Skipping it would silently leave a file behind.
            Err(_) => {
                return Err(Error::Path {
                    path: format!("{path}/{}", entry.file_name().to_string_lossy()),
                    why: "not UTF-8",
                });
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

impl Root {
    /// The paths that match a pattern, sorted. `*` matches any characters except `/` and a leading dot.
    pub fn glob(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let mut found = vec![String::new()];
        for part in pattern.trim_start_matches('/').split('/') {
            let mut next = Vec::new();
            for folder in found {
                if part.contains('*') {
                    let names = self.names(&folder)?.into_iter().filter(|name| fits(part, name));
                    next.extend(names.map(|name| format!("{folder}/{name}")));
                } else {
                    let path = format!("{folder}/{part}");
                    if self.kind(&path)?.is_some() {
                        next.push(path);
                    }
                }
            }
            found = next;
        }
        Ok(found)
    }

    /// The first mount point at or below a path, relative to the root. The mount table is read, because bind mounts within one file system do not
    /// change the device number.
    pub fn mount_in(&self, path: &str) -> Result<Option<String>, Error> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Some((parent, name)) = self.parent_if_exists(path)? else { return Ok(None) };
        let fd = match rustix::fs::openat(&parent, name, flags, rustix::fs::Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::io("stat", path, errno)),
        };
        let unknown = |source| Error::io("find mounts in", path, source);
        let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).map_err(unknown)?;
        let real = real.to_string_lossy();
        let table = std::fs::read_to_string("/proc/self/mountinfo").map_err(unknown)?;
        let inside =
            |mount: &str| mount == real || mount.strip_prefix(&*real).is_some_and(|rest| rest.starts_with('/'));
        let mount = table.lines().filter_map(mount_point).find(|mount| inside(mount));
        let shown = |mount: String| match mount.strip_prefix(self.path().to_string_lossy().trim_end_matches('/')) {
            Some(rest) if rest.starts_with('/') => rest.to_owned(),
            _ => mount,
        };
        Ok(mount.map(shown))
    }
}

/// The mount point in a line of `mountinfo`, where special characters are escaped as octal numbers.
pub(crate) fn mount_point(line: &str) -> Option<String> {
    let field = line.split(' ').nth(4)?;
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            let digits: Vec<u8> = bytes.by_ref().take(3).collect();
            text.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?);
        } else {
            text.push(byte);
        }
    }
    String::from_utf8(text).ok()
}

/// Whether a name matches a pattern with `*`.
fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters_except_a_leading_dot() {
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
        assert_eq!(mount_point(line).as_deref(), Some(r"/mnt/a b\c"));
        assert_eq!(mount_point("36 35"), None);
    }
}
