//! The state folder: one JSON document per resource, and no other state.
//!
//! A document is replaced atomically, and one lock protects operations on several documents. A killed process leaves each document old or new;
//! the next process removes its temporary files.
//!
//! | folder | content |
//! |---|---|
//! | `pools`, `machines`, `images`, `snapshots`, `galleries`, `definitions`, `versions` | documents |
//! | `layers/ID` | one layer of disks: `upper` and `work` for overlayfs, or `disk.qcow2` |
//! | `building`, `trash` | layers that are being created or removed |
//! | `locks` | empty files |

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{Files, Lock};
use crate::runner::MachineKey;

/// The format of the documents. It is increased with every change that another version of kiln would misread. Format 2 renamed fields and
/// the folder of image definitions.
const FORMAT: u32 = 2;

const HEAD: &str = "store.json";

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
}

/// A resource that is stored as a document.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// The folder of such documents.
    const FOLDER: &'static str;
    /// The noun in error messages.
    const NOUN: &'static str;
    /// The name of the document.
    fn key(&self) -> String;
}

/// A state folder.
#[derive(Debug, Clone)]
pub struct Store {
    files: Arc<Files>,
}

impl Store {
    /// Creates a state folder, or opens an existing one.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        let root = std::path::absolute(folder).map_err(Error::io("find", folder))?;
        let store = Self { files: Arc::new(Files::new(root)) };
        let files = &store.files;
        files.folder("", 0o700)?;
        if files.read(HEAD)?.is_some() {
            // Before a folder of another format is changed.
            store.check_format()?;
        }
        for folder in [
            "building",
            "definitions",
            "snapshots",
            "galleries",
            "images",
            "layers",
            "locks",
            "machines",
            "pools",
            "trash",
            "versions",
        ] {
            files.folder(folder, 0o700)?;
        }
        let _lock = files.lock("locks/store")?;
        if files.read(HEAD)?.is_none() {
            let head = Head { format: FORMAT };
            files.write(HEAD, &to_text(&head, &files.path(HEAD))?)?;
        }
        store.check_format()?;
        Ok(store)
    }

    /// Opens a state folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let root = std::path::absolute(folder).map_err(Error::io("find", folder))?;
        let store = Self { files: Arc::new(Files::new(root)) };
        store.check_format()?;
        Ok(store)
    }

    fn check_format(&self) -> Result<(), Error> {
        let path = self.files.path("");
        let Some(head) = self.files.read(HEAD)? else { return Err(Error::NoStore { path }) };
        let Head { format } =
            serde_json::from_slice(&head).map_err(|source| Error::Damaged { path: path.join(HEAD), source })?;
        match format.cmp(&FORMAT) {
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Error::NewerFormat { path, format, supported: FORMAT }),
            Ordering::Less => Err(Error::OlderFormat { path, format, supported: FORMAT }),
        }
    }

    /// The path of the folder.
    pub fn folder(&self) -> PathBuf {
        self.files.path("")
    }

    /// The number of changes that this process made.
    pub fn changes(&self) -> u64 {
        self.files.changes()
    }

    /// Makes every operation fail before this change, so that a test can leave the folder as a killed process would.
    pub fn stop_before(&self, change: Option<u64>) {
        self.files.stop_before(change);
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Takes the lock for starting or stopping a machine, or for copying its disk. It is taken before [`lock`](Self::lock), never after.
    pub(crate) fn machine_lock(&self, machine: &MachineKey) -> Result<Lock, Error> {
        self.files.lock(&format!("locks/{machine}.machine"))
    }

    /// Takes the lock for joining layers, which takes long.
    pub(crate) fn build_lock(&self) -> Result<Lock, Error> {
        self.files.lock("locks/build")
    }

    /// Waits for the lock on all documents.
    pub(crate) fn lock(&self) -> Result<LockedStore<'_>, Error> {
        let lock = self.files.lock("locks/store")?;
        // A newer kiln may have changed the format meanwhile.
        self.check_format()?;
        Ok(LockedStore { files: &self.files, _lock: lock })
    }
}

/// The state folder, while this process holds the lock on all documents.
#[derive(Debug)]
pub(crate) struct LockedStore<'a> {
    files: &'a Files,
    _lock: Lock,
}

impl LockedStore<'_> {
    pub(crate) fn files(&self) -> &Files {
        self.files
    }

    pub(crate) fn find<R: Record>(&self, key: &str) -> Result<Option<R>, Error> {
        let relative = document_path::<R>(key)?;
        let Some(bytes) = self.files.read(&relative)? else { return Ok(None) };
        let damaged = |source| Error::Damaged { path: self.files.path(&relative), source };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    pub(crate) fn get<R: Record>(&self, key: &str) -> Result<R, Error> {
        self.find(key)?.ok_or_else(|| Error::unknown(R::NOUN, key))
    }

    pub(crate) fn put<R: Record>(&self, record: &R) -> Result<(), Error> {
        let relative = document_path::<R>(&record.key())?;
        self.files.write(&relative, &to_text(record, &self.files.path(&relative))?)
    }

    pub(crate) fn remove<R: Record>(&self, key: &str) -> Result<(), Error> {
        self.files.remove(&document_path::<R>(key)?)
    }

    pub(crate) fn list<R: Record>(&self) -> Result<Vec<R>, Error> {
        let names = self.files.names(R::FOLDER)?;
        let keys = names.iter().filter_map(|name| name.strip_suffix(".json"));
        keys.map(|key| self.get(key)).collect()
    }
}

fn document_path<R: Record>(key: &str) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    if key.is_empty() || key.starts_with('.') || key.len() > 240 || !key.chars().all(plain) {
        let rule = "expected letters, digits, `-`, `_` or `.`, not starting with `.`";
        return Err(Error::Invalid { noun: R::NOUN, text: key.to_owned(), rule });
    }
    Ok(format!("{}/{key}.json", R::FOLDER))
}

fn to_text(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, Error> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| Error::Damaged { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}
