//! The lock that lets only one process change the node.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use kiln_node_plan::selinux::EntryKind;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::{Root, split};

/// A lock. The kernel releases it when the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, or fails with the process that holds it.
    pub fn take(root: &Root, path: &str) -> Result<Self, Error> {
        Self::open(root, path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for the lock.
    pub fn wait(root: &Root, path: &str) -> Result<Self, Error> {
        Self::open(root, path, FlockOperation::LockExclusive)
    }

    fn open(root: &Root, path: &str, how: FlockOperation) -> Result<Self, Error> {
        let (folder, name) = split(path)?;
        let parent = root.folder(folder, &mut Vec::new())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file =
            rustix::fs::openat(&parent, name, flags, 0o600.into()).map_err(|source| Error::io("lock", path, source))?;
        root.label(&file, path, EntryKind::File)?;
        let mut file = File::from(file);
        loop {
            match flock(&file, how) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path: path.to_owned(), by: holder(&mut file) }),
                Err(source) => return Err(Error::io("lock", path, source)),
            }
        }
        // The process id is only informational.
        let _ = file.set_len(0);
        let _ = file.write_all(std::process::id().to_string().as_bytes());
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(32).read_to_string(&mut text));
    match text.trim().parse::<u32>() {
        Ok(process) if read.is_ok() => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
