//! The journal on disk: one JSON line per commit, synced before the request that caused it is answered. A crash loses at most the last,
//! unacknowledged line.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The journal is compacted when its growth since the last compaction exceeds this share of its size then. A small share keeps the size of
/// the folder that of the state; it costs 16 bytes of compaction per byte that a commit appends.
const COMPACT_SHARE: u64 = 16;
/// Growth below this is not worth a sync of the folder.
const COMPACT_FLOOR: u64 = 64 << 10;

/// State that a [`Journal`] stores. Each line is JSON without line breaks.
pub trait Persistent {
    /// Applies a line that was written earlier.
    fn replay(&mut self, line: &str) -> Result<(), serde_json::Error>;

    /// Returns the changes since the last call, or `None` if there are none.
    fn take_changes(&mut self) -> Option<Vec<u8>>;

    /// Returns the whole state as one line.
    fn full_state(&self) -> Vec<u8>;
}

/// An open journal. The file is locked, so that a second process cannot open it.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    bytes: u64,
    compacted: u64,
}

/// An error of opening or writing a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: line {line} is not valid: {source}", path.display())]
    Damaged { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("{}: locked by another process", path.display())]
    Locked { path: PathBuf },
}

impl Journal {
    /// Opens the journal at `path` and replays it into `state`. The flag is `true` if the journal had entries.
    pub fn open(path: &Path, state: &mut impl Persistent) -> Result<(Self, bool), JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let mut good = 0;
        let mut reader = BufReader::new(&file);
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let read = reader.read_until(b'\n', &mut text).map_err(io)?;
            // A line without a newline was never acknowledged: the process crashed while writing it.
            if text.last() != Some(&b'\n') {
                break;
            }
            let damaged = |source| JournalError::Damaged { path: path.to_owned(), line, source };
            let text = std::str::from_utf8(&text)
                .map_err(|error| damaged(serde_json::Error::io(io::Error::new(io::ErrorKind::InvalidData, error))))?;
            state.replay(text).map_err(damaged)?;
            good += read as u64;
        }
        file.set_len(good).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok((Self { file, path: path.to_owned(), bytes: good, compacted: good }, good > 0))
    }

    /// Appends the changes since the last commit and syncs the file.
    pub fn commit(&mut self, state: &mut impl Persistent) -> Result<(), JournalError> {
        let Some(mut line) = state.take_changes() else { return Ok(()) };
        line.push(b'\n');
        self.append(&line, state).map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    fn append(&mut self, line: &[u8], state: &impl Persistent) -> io::Result<()> {
        self.file.write_all(line)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        if self.bytes - self.compacted > COMPACT_FLOOR.max(self.compacted / COMPACT_SHARE) {
            self.compact(state)?;
        }
        Ok(())
    }

    /// Writes the whole state as one line into a new file and renames that over the journal.
    fn compact(&mut self, state: &impl Persistent) -> io::Result<()> {
        let mut line = state.full_state();
        line.push(b'\n');
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of numbers, and how many of them were committed.
    #[derive(Debug, Default, PartialEq)]
    struct List(Vec<u64>, usize);

    impl Persistent for List {
        fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
            let more: Vec<u64> = serde_json::from_str(line)?;
            self.0.extend(more);
            self.1 = self.0.len();
            Ok(())
        }

        fn take_changes(&mut self) -> Option<Vec<u8>> {
            let new = &self.0[self.1..];
            self.1 = self.0.len();
            (!new.is_empty()).then(|| serde_json::to_vec(new).expect("numbers"))
        }

        fn full_state(&self) -> Vec<u8> {
            serde_json::to_vec(&self.0).expect("numbers")
        }
    }

    fn read(path: &Path) -> Result<List, JournalError> {
        let mut list = List::default();
        Journal::open(path, &mut list).map(|_| list)
    }

    #[test]
    fn committed_lines_are_replayed_and_a_torn_last_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut list = List::default();
        let (mut journal, had_entries) = Journal::open(&path, &mut list).unwrap();
        assert!(!had_entries);
        list.0.extend([1, 2]);
        journal.commit(&mut list).unwrap();
        list.0.push(3);
        journal.commit(&mut list).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"[4"].concat()).unwrap();
        assert_eq!(read(&path).unwrap().0, [1, 2, 3]);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "the torn line is removed from the file");
    }

    #[test]
    fn lock_and_damage_errors_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut list = List::default();
        let held = Journal::open(&path, &mut list).unwrap();
        assert!(matches!(read(&path), Err(JournalError::Locked { .. })));
        drop(held);
        std::fs::write(&path, "[1]\n\"no\"\n[2]\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{error}");
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    }

    /// A number whose change entries are 1 MiB long.
    #[derive(Debug, Default)]
    struct Counter(u64);

    impl Persistent for Counter {
        fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
            self.0 = serde_json::from_str(line)?;
            Ok(())
        }

        fn take_changes(&mut self) -> Option<Vec<u8>> {
            Some(format!("{}{}", " ".repeat(1 << 20), self.0).into_bytes())
        }

        fn full_state(&self) -> Vec<u8> {
            self.0.to_string().into_bytes()
        }
    }

    #[test]
    fn oversized_journal_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut counter = Counter::default();
        let (mut journal, _) = Journal::open(&path, &mut counter).unwrap();
        for number in 1..=4 {
            counter.0 = number;
            journal.commit(&mut counter).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 2, "one line with one digit");
        counter.0 = 5;
        journal.commit(&mut counter).unwrap();
        drop(journal);
        let mut again = Counter::default();
        Journal::open(&path, &mut again).unwrap();
        assert_eq!(again.0, 5);
    }
}
