//! A journal: one line per commit, on disk before the request that caused it is answered.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Written anew when it is this much larger than what it says, and not before it is worth the while.
const COMPACT_RATIO: u64 = 4;
const COMPACT_FLOOR: u64 = 4 << 20;

/// What can be kept in a journal. Lines are JSON and hold no line break.
pub trait Kept {
    /// Takes in a line that was written before.
    fn replay(&mut self, line: &str) -> Result<(), serde_json::Error>;

    /// Says what changed since the last call, or `None` when nothing did.
    fn changes(&mut self) -> Option<Vec<u8>>;

    /// Says everything in one line.
    fn everything(&self) -> Vec<u8>;
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    bytes: u64,
    compacted: u64,
}

/// What can go wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A line in the middle is not what we wrote.
    #[error("{}: line {line} is damaged: {source}; the state folder cannot be used", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Another process has the folder.
    #[error("{}: in use by another process", path.display())]
    Locked { path: PathBuf },
}

impl Journal {
    /// Opens the journal at `path` and fills `kept` with what it says. `true` when there was something in it.
    pub fn open(path: &Path, kept: &mut impl Kept) -> Result<(Self, bool), JournalError> {
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
            // A torn tail was never acknowledged: the crash came before its newline was on disk.
            if text.last() != Some(&b'\n') {
                break;
            }
            let damaged = |source| JournalError::Damaged { path: path.to_owned(), line, source };
            let text = std::str::from_utf8(&text)
                .map_err(|error| damaged(serde_json::Error::io(io::Error::new(io::ErrorKind::InvalidData, error))))?;
            kept.replay(text).map_err(damaged)?;
            good += read as u64;
        }
        file.set_len(good).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        Ok((Self { file, path: path.to_owned(), bytes: good, compacted: good }, good > 0))
    }

    /// Puts what changed since the last commit on disk.
    pub fn commit(&mut self, kept: &mut impl Kept) -> Result<(), JournalError> {
        let Some(mut line) = kept.changes() else { return Ok(()) };
        line.push(b'\n');
        self.append(&line, kept).map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }

    fn append(&mut self, line: &[u8], kept: &impl Kept) -> io::Result<()> {
        self.file.write_all(line)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        if self.bytes > COMPACT_FLOOR && self.bytes > COMPACT_RATIO * self.compacted {
            self.compact(kept)?;
        }
        Ok(())
    }

    /// Writes everything as one line into a new file and puts that in the old one's place.
    fn compact(&mut self, kept: &impl Kept) -> io::Result<()> {
        let mut line = kept.everything();
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

    /// A list of numbers.
    #[derive(Debug, Default, PartialEq)]
    struct List(Vec<u64>, usize);

    impl Kept for List {
        fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
            let more: Vec<u64> = serde_json::from_str(line)?;
            self.0.extend(more);
            self.1 = self.0.len();
            Ok(())
        }

        fn changes(&mut self) -> Option<Vec<u8>> {
            let new = &self.0[self.1..];
            self.1 = self.0.len();
            (!new.is_empty()).then(|| serde_json::to_vec(new).expect("numbers"))
        }

        fn everything(&self) -> Vec<u8> {
            serde_json::to_vec(&self.0).expect("numbers")
        }
    }

    fn read(path: &Path) -> Result<List, JournalError> {
        let mut list = List::default();
        Journal::open(path, &mut list).map(|_| list)
    }

    #[test]
    fn what_was_committed_is_there_again_and_a_torn_tail_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut list = List::default();
        let (mut journal, found) = Journal::open(&path, &mut list).unwrap();
        assert!(!found);
        list.0.extend([1, 2]);
        journal.commit(&mut list).unwrap();
        list.0.push(3);
        journal.commit(&mut list).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"[4"].concat()).unwrap();
        assert_eq!(read(&path).unwrap().0, [1, 2, 3]);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "the tail is cut off");
    }

    #[test]
    fn a_second_process_and_a_damaged_line_are_told_with_the_path() {
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

    /// A number that is said at length when it changes.
    #[derive(Debug, Default)]
    struct Counter(u64);

    impl Kept for Counter {
        fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
            self.0 = serde_json::from_str(line)?;
            Ok(())
        }

        fn changes(&mut self) -> Option<Vec<u8>> {
            Some(format!("{}{}", " ".repeat(1 << 20), self.0).into_bytes())
        }

        fn everything(&self) -> Vec<u8> {
            self.0.to_string().into_bytes()
        }
    }

    #[test]
    fn a_journal_that_outgrew_its_world_is_written_anew() {
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
