//! A recorder that writes sanitised exchanges to a file, one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Exchange, Recorder, Sanitiser};

/// An error of a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot create the recording `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot continue the recording `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A recording in a file.
#[derive(Debug)]
pub struct RecordFile {
    pub path: PathBuf,
    /// `None` after the file could not be written.
    state: Mutex<Option<(File, Sanitiser)>>,
    warn: fn(&RecordError),
}

impl RecordFile {
    /// Creates a recording; an existing file is not overwritten. Only its owner can read it: placeholders hide names, not the size of a
    /// cluster. `warn` is called once if the file cannot be written later: a full disk must not fail the run that is recorded.
    pub fn create(folder: &Path, name: &str, warn: fn(&RecordError)) -> Result<Self, RecordError> {
        let path = folder.join(name);
        let open = || {
            std::fs::create_dir_all(folder)?;
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
        };
        match open() {
            Ok(file) => Ok(Self { path, state: Mutex::new(Some((file, Sanitiser::default()))), warn }),
            Err(source) => Err(RecordError::Create { path, source }),
        }
    }
}

impl Recorder for RecordFile {
    fn record(&self, exchange: Exchange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((file, sanitiser)) = state.as_mut() else { return };
        let line = format!("{}\n", sanitiser.line(&exchange));
        if let Err(source) = file.write_all(line.as_bytes()) {
            *state = None;
            (self.warn)(&RecordError::Write { path: self.path.clone(), source });
        }
    }
}
