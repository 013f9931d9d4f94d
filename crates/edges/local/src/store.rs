//! The state folder: one JSON document for each thing, and nothing else that would remember anything.
//!
//! A document is replaced whole, and what reads and writes several does so under one lock. A process that is killed leaves each document old
//! or new; what it left besides is removed by who comes next.
//!
//! | folder | holds |
//! |---|---|
//! | `pools`, `machines`, `images`, `snapshots`, `galleries`, `lines`, `versions` | a document for each |
//! | `layers/ID` | what was written above other layers: `upper` and `work` for overlayfs, or `disk.qcow2` |
//! | `building`, `trash` | layers that are not yet or no longer there |
//! | `locks` | empty files |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::{Files, Lock};
use crate::runner::MachineKey;

/// The format of the documents. A change that an older program would misread takes the next number.
const FORMAT: u32 = 1;

const HEAD: &str = "store.json";

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
}

/// A thing that is kept as a document.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// The folder of its kind.
    const FOLDER: &'static str;
    /// What it is called in an error.
    const NOUN: &'static str;
    /// What it is found by.
    fn key(&self) -> String;
}

/// A state folder.
#[derive(Debug, Clone)]
pub struct Store {
    files: Arc<Files>,
}

impl Store {
    /// Makes a state folder, or opens the one that is there.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        let root = std::path::absolute(folder).map_err(Error::io("find", folder))?;
        let files = Files::new(root);
        files.folder("", 0o700)?;
        for folder in [
            "building",
            "snapshots",
            "galleries",
            "images",
            "layers",
            "lines",
            "locks",
            "machines",
            "pools",
            "trash",
            "versions",
        ] {
            files.folder(folder, 0o700)?;
        }
        let store = Self { files: Arc::new(files) };
        let _lock = store.files.lock("locks/store")?;
        if store.files.read(HEAD)?.is_none() {
            let head = Head { format: FORMAT };
            store.files.write(HEAD, &text_of(&head, &store.files.path(HEAD))?)?;
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
        if format > FORMAT {
            return Err(Error::Newer { path, found: format, known: FORMAT });
        }
        Ok(())
    }

    /// The folder.
    pub fn folder(&self) -> PathBuf {
        self.files.path("")
    }

    /// How many changes this process made to the folder.
    pub fn changes(&self) -> u64 {
        self.files.changes()
    }

    /// Ends every verb before this change: what a test leaves a killed process by.
    pub fn stop_before(&self, change: Option<u64>) {
        self.files.stop_before(change);
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Keeps everybody else from switching a machine or copying its disk. Taken before [`lock`](Self::lock), never after.
    pub(crate) fn machine_lock(&self, machine: &MachineKey) -> Result<Lock, Error> {
        self.files.lock(&format!("locks/{machine}.machine"))
    }

    /// Keeps everybody else from long work on layers.
    pub(crate) fn build_lock(&self) -> Result<Lock, Error> {
        self.files.lock("locks/build")
    }

    /// Waits until nobody else reads or writes documents.
    pub(crate) fn lock(&self) -> Result<LockedStore<'_>, Error> {
        let lock = self.files.lock("locks/store")?;
        // A newer program may have been here meanwhile.
        self.check_format()?;
        Ok(LockedStore { files: &self.files, _lock: lock })
    }
}

/// The state folder while nobody else reads or writes documents.
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
        self.files.write(&relative, &text_of(record, &self.files.path(&relative))?)
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
        let rule = "letters, digits, `-`, `_` or `.`, the first no `.`";
        return Err(Error::BadText { noun: R::NOUN, text: key.to_owned(), rule });
    }
    Ok(format!("{}/{key}.json", R::FOLDER))
}

fn text_of(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, Error> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|source| Error::Damaged { path: path.to_owned(), source })?;
    text.push(b'\n');
    Ok(text)
}
