//! Every change to a file, counted; and the seam by which a test ends a program between any two of them.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::os::error::Error;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A folder is made.
    Folder,
    /// An empty file is made.
    Create,
    /// Bytes go into a file.
    Write,
    /// Mode or owner change.
    Attributes,
    /// A file or a folder is made durable.
    Sync,
    /// A whole file system is made durable.
    SyncAll,
    /// A name changes.
    Rename,
    /// A symbolic link is made.
    Link,
    /// A name goes away.
    Remove,
}

/// How many changes there were of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Folders made.
    pub folders: u64,
    /// Files made.
    pub creates: u64,
    /// Writes.
    pub writes: u64,
    /// Changes of mode or owner.
    pub attributes: u64,
    /// `fsync` of files and folders.
    pub fsyncs: u64,
    /// `syncfs`.
    pub syncfs: u64,
    /// Renames.
    pub renames: u64,
    /// Symbolic links.
    pub links: u64,
    /// Deletions.
    pub removes: u64,
}

impl Counts {
    /// All changes together.
    pub fn total(&self) -> u64 {
        let made = self.folders + self.creates + self.writes + self.attributes;
        made + self.fsyncs + self.syncfs + self.renames + self.links + self.removes
    }

    fn counter_mut(&mut self, op: Op) -> &mut u64 {
        match op {
            Op::Folder => &mut self.folders,
            Op::Create => &mut self.creates,
            Op::Write => &mut self.writes,
            Op::Attributes => &mut self.attributes,
            Op::Sync => &mut self.fsyncs,
            Op::SyncAll => &mut self.syncfs,
            Op::Rename => &mut self.renames,
            Op::Link => &mut self.links,
            Op::Remove => &mut self.removes,
        }
    }
}

/// What counts, and where it ends.
#[derive(Debug, Default)]
pub(crate) struct Ops {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: Counts,
    stop_after: Option<u64>,
}

impl Ops {
    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).counts
    }

    pub(crate) fn stop_after(&self, operations: Option<u64>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).stop_after = operations;
    }

    /// Counts an operation, or says that the end has come. After it nothing is done any more, as in a process that was killed.
    pub(crate) fn begin(&self, op: Op) -> Result<(), Error> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let number = inner.counts.total();
        if inner.stop_after.is_some_and(|last| number >= last) {
            return Err(Error::Stopped { number });
        }
        *inner.counts.counter_mut(op) += 1;
        Ok(())
    }

    /// Does one operation.
    pub(crate) fn act<T, E: Into<io::Error>>(
        &self,
        op: Op,
        doing: &'static str,
        path: &str,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Error> {
        self.begin(op)?;
        act().map_err(|source| Error::io(doing, path, source))
    }
}
