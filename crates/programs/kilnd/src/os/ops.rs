//! Counts every change to a file, and lets a test stop kilnd between any two of them.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::os::error::Error;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Folder,
    Create,
    Write,
    /// Mode or owner.
    Attributes,
    /// `fsync`.
    Sync,
    /// `syncfs`.
    SyncAll,
    Rename,
    Link,
    Remove,
}

/// Number of operations of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub folders: u64,
    pub creates: u64,
    pub writes: u64,
    pub attributes: u64,
    pub fsyncs: u64,
    pub syncfs: u64,
    pub renames: u64,
    pub links: u64,
    pub removes: u64,
}

impl Counts {
    /// The sum of all counters.
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

/// The counters and the stop of a root.
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

    /// Counts an operation, or fails if the stop is reached. All later operations fail too, as in a killed process.
    pub(crate) fn begin(&self, op: Op) -> Result<(), Error> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let number = inner.counts.total();
        if inner.stop_after.is_some_and(|last| number >= last) {
            return Err(Error::Stopped { number });
        }
        *inner.counts.counter_mut(op) += 1;
        Ok(())
    }

    /// Executes one operation.
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
