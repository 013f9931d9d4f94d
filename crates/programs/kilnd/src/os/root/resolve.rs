//! Path resolution inside a root without `openat2`: a donor may run an old kernel, and old container runtimes block system calls that they
//! do not know.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;

/// The limit of symbolic links, as in the kernel.
const LINKS: u32 = 40;

/// Opens a path as in a chroot: absolute links start at the root, relative ones at their folder, and `..` does not leave the root. A link
/// that appears between checking a name and opening it is not followed.
pub(super) fn open_in(root: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let root = root.as_fd();
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut parents: Vec<OwnedFd> = Vec::new();
    let mut rest: VecDeque<OsString> = parts(path.as_os_str().as_bytes()).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        match name.as_bytes() {
            b"." => continue,
            b".." => {
                parents.pop();
                continue;
            }
            _ => {}
        }
        let here = parents.last().map_or(root, AsFd::as_fd);
        if rest.is_empty() && flags.contains(OFlags::NOFOLLOW) {
            return openat(here, &name, flags, Mode::empty());
        }
        let found = openat(here, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink {
            links += 1;
            if links > LINKS {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&found, "", Vec::new())?;
            let target = target.as_bytes();
            if target.starts_with(b"/") {
                parents.clear();
            }
            for part in parts(target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(part);
            }
        } else if rest.is_empty() {
            return openat(here, &name, flags | OFlags::NOFOLLOW, Mode::empty());
        } else {
            parents.push(openat(here, &name, folder, Mode::empty())?);
        }
    }
    openat(parents.last().map_or(root, AsFd::as_fd), ".", flags, Mode::empty())
}

fn parts(path: &[u8]) -> impl Iterator<Item = OsString> + '_ {
    path.split(|byte| *byte == b'/').map(|part| OsStr::from_bytes(if part.is_empty() { b"." } else { part }).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use proptest::prelude::*;
    use rustix::fs::ResolveFlags;

    use super::*;

    /// The inode number of a result.
    fn number(found: Result<OwnedFd, Errno>) -> Result<u64, Errno> {
        found.map(|fd| fs::File::from(fd).metadata().expect("metadata").ino())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn resolution_matches_openat2(
            links in prop::collection::vec(("[abc](/[abc]){0,1}", "(/|)(\\.\\./){0,2}([abc]|\\.\\.)(/[abcf]){0,2}"), 0..6),
            path in "/([abcf]|\\.\\.)(/([abcf]|\\.\\.|\\.)){0,4}/?",
        ) {
            let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
            for inner in ["a/b/c", "b/a", "c"] {
                fs::create_dir_all(folder.path().join(inner)).expect("folders");
                fs::write(folder.path().join(inner).join("f"), inner).expect("written");
            }
            for (path, target) in &links {
                // Existing entries stay.
                let _ = symlink(target, folder.path().join(path));
            }
            let root = fs::File::open(folder.path()).expect("a root");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let kernel = rustix::fs::openat2(&root, &path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
            prop_assert_eq!(number(open_in(&root, Path::new(&path), flags)), number(kernel));
        }
    }

    #[test]
    fn link_loops_are_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink("b", folder.path().join("a")).expect("a link");
        symlink("a", folder.path().join("b")).expect("a link");
        let root = fs::File::open(folder.path()).expect("a root");
        assert_eq!(open_in(&root, Path::new("/a"), OFlags::RDONLY).err(), Some(Errno::LOOP));
    }
}
