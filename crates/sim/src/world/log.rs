//! The log that a world is kept in: one line per commit, on disk before the request that caused it is answered.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::operation::{Event, Operation};
use super::resource::Resource;
use super::table::Table;
use super::{Group, Meta, World};

/// Written anew when it is this much larger than what it says, and not before it is worth the while.
const COMPACT_RATIO: u64 = 4;
const COMPACT_FLOOR: u64 = 4 << 20;

/// One commit.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    now: Timestamp,
    meta: Meta,
    /// Table, key, and the record or null.
    #[serde(borrow)]
    changes: Vec<(char, String, Option<&'a RawValue>)>,
}

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    bytes: u64,
    compacted: u64,
}

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line in the middle is not what we wrote.
    #[error("{}: line {line} is damaged: {source}; the state folder cannot be used", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Another process has the folder.
    #[error("{}: in use by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

impl Log {
    /// Opens the log at `path` and fills `world` with what it says. `true` when there was something in it.
    pub(crate) fn open(path: &Path, world: &mut World) -> Result<(Self, bool), LogError> {
        let io = |source| LogError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(LogError::Locked { path: path.to_owned() }),
            Err(std::fs::TryLockError::Error(source)) => return Err(io(source)),
        }
        let mut good = 0;
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        for number in 1.. {
            text.clear();
            // A line that is not UTF-8 is damaged like any other.
            let read = match reader.read_line(&mut text) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => 1,
                Err(error) => return Err(io(error)),
            };
            if read == 0 {
                break;
            }
            // A torn tail was never acknowledged: the crash came before its newline was on disk.
            if !text.ends_with('\n') {
                break;
            }
            let damaged = |source| LogError::Damaged { path: path.to_owned(), line: number, source };
            replay(world, &text).map_err(damaged)?;
            good += read as u64;
        }
        file.set_len(good).map_err(io)?;
        file.seek(io::SeekFrom::End(0)).map_err(io)?;
        world.index();
        Ok((Self { file, path: path.to_owned(), bytes: good, compacted: good }, good > 0))
    }

    /// Puts what changed since the last commit on disk.
    pub(crate) fn commit(&mut self, world: &mut World) -> Result<(), LogError> {
        let changes = changes(world);
        if changes.is_empty() {
            return Ok(());
        }
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| LogError::Io { path, source }
        };
        let line = encode(world, &changes);
        self.file.write_all(&line).map_err(io(&self.path))?;
        self.file.sync_data().map_err(io(&self.path))?;
        self.bytes += line.len() as u64;
        if self.bytes > COMPACT_FLOOR && self.bytes > COMPACT_RATIO * self.compacted {
            self.compact(world).map_err(io(&self.path))?;
        }
        Ok(())
    }

    /// Writes the whole world as one line into a new file and puts that in the old one's place.
    fn compact(&mut self, world: &World) -> io::Result<()> {
        let mut all = Vec::new();
        snapshot('g', &world.groups, &mut all);
        snapshot('r', &world.resources, &mut all);
        snapshot('o', &world.operations, &mut all);
        snapshot('e', &world.agenda, &mut all);
        let line = encode(world, &all);
        let new = self.path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&new)?;
        file.try_lock().map_err(io::Error::from)?;
        file.write_all(&line)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.file = file;
        self.bytes = line.len() as u64;
        self.compacted = self.bytes;
        Ok(())
    }
}

type Change = (char, String, Option<Box<RawValue>>);

fn raw<T: Serialize>(record: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(record).expect("records have text keys only")
}

fn snapshot<T: Serialize>(table: char, records: &Table<T>, into: &mut Vec<Change>) {
    into.extend(records.iter().map(|(key, record)| (table, key.to_owned(), Some(raw(record)))));
}

fn changes(world: &mut World) -> Vec<Change> {
    let mut all = Vec::new();
    take('g', &mut world.groups, &mut all);
    take('r', &mut world.resources, &mut all);
    take('o', &mut world.operations, &mut all);
    take('e', &mut world.agenda, &mut all);
    all
}

fn take<T: Serialize>(table: char, records: &mut Table<T>, into: &mut Vec<Change>) {
    into.extend(records.take_changes().into_iter().map(|(key, record)| (table, key, record.map(raw))));
}

fn encode(world: &World, changes: &[Change]) -> Vec<u8> {
    let changes = changes.iter().map(|(table, key, record)| (*table, key.clone(), record.as_deref())).collect();
    let mut line = serde_json::to_vec(&Line { now: world.now, meta: world.meta.clone(), changes })
        .expect("a line has text keys only");
    line.push(b'\n');
    line
}

fn replay(world: &mut World, text: &str) -> Result<(), serde_json::Error> {
    fn put<T: for<'a> Deserialize<'a>>(
        table: &mut Table<T>,
        key: String,
        record: Option<&RawValue>,
    ) -> Result<(), serde_json::Error> {
        table.restore(key, record.map(|raw| serde_json::from_str(raw.get())).transpose()?);
        Ok(())
    }
    let line: Line<'_> = serde_json::from_str(text)?;
    world.now = line.now;
    world.meta = line.meta;
    for (table, key, record) in line.changes {
        match table {
            'g' => put::<Group>(&mut world.groups, key, record)?,
            'r' => put::<Resource>(&mut world.resources, key, record)?,
            'o' => put::<Operation>(&mut world.operations, key, record)?,
            'e' => put::<Event>(&mut world.agenda, key, record)?,
            other => return Err(serde::de::Error::custom(format!("unknown table `{other}`"))),
        }
    }
    Ok(())
}
