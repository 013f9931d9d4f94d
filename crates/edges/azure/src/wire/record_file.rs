//! A recorder that writes sanitised exchanges to a file, one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Exchange, Recorder, Sanitiser};

/// An error of creating a recording.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the recording `{}`", path.display())]
pub struct RecordError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// A recording in a file.
#[derive(Debug)]
pub struct RecordFile {
    pub path: PathBuf,
    state: Mutex<(File, Sanitiser)>,
}

impl RecordFile {
    /// Creates a recording; an existing file is not overwritten. Only its owner can read it: placeholders hide names, not the size of a
    /// cluster.
    pub fn create(folder: &Path, name: &str) -> Result<Self, RecordError> {
        let path = folder.join(name);
        let open = || {
            std::fs::create_dir_all(folder)?;
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
        };
        match open() {
            Ok(file) => Ok(Self { path, state: Mutex::new((file, Sanitiser::default())) }),
            Err(source) => Err(RecordError { path, source }),
        }
    }
}

impl Recorder for RecordFile {
    fn record(&self, exchange: Exchange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, sanitiser) = &mut *state;
        let line = format!("{}\n", sanitiser.line(&exchange));
        // A full disk must not fail the run that is recorded.
        let _ = file.write_all(line.as_bytes());
    }
}
