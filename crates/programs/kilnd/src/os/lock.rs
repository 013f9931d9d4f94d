//! One program at a time works on a node's configuration.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::root::{Root, split};

/// A lock. It ends with its owner, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock at once, or says who has it.
    pub fn take(root: &Root, path: &str) -> Result<Self, Error> {
        Self::with(root, path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Waits for the lock.
    pub fn wait(root: &Root, path: &str) -> Result<Self, Error> {
        Self::with(root, path, FlockOperation::LockExclusive)
    }

    fn with(root: &Root, path: &str, how: FlockOperation) -> Result<Self, Error> {
        let (folder, name) = split(path)?;
        let parent = root.folder(folder, &mut Vec::new())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file =
            rustix::fs::openat(&parent, name, flags, 0o600.into()).map_err(|source| Error::io("lock", path, source))?;
        let mut file = File::from(file);
        loop {
            match flock(&file, how) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path: path.to_owned(), by: holder(&mut file) }),
                Err(source) => return Err(Error::io("lock", path, source)),
            }
        }
        // Who has it is a help for people; the lock holds without.
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
