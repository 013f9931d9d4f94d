//! Pieces as a file, and trees to make them from.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_image::disk::{Attributes, Content, Entry, Kind, Piece, Source, Tree};

/// The content of files in tests is derived from a number.
pub(crate) type Seed = u64;

/// `length` bytes of a file, from `from` on.
pub(crate) fn content(seed: Seed, from: u64, length: u64) -> Vec<u8> {
    let page =
        |index: u64| (seed ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).to_le_bytes().repeat(512);
    let (first, end) = (from / 4096, (from + length).div_ceil(4096));
    let mut bytes: Vec<u8> = (first..end).flat_map(|index| page(index + 1)).collect();
    bytes.truncate((from % 4096 + length) as usize);
    bytes.split_off((from % 4096) as usize)
}

pub(crate) fn attributes(mode: u16) -> Attributes {
    Attributes { mode, modified: 1_700_000_000, ..Attributes::default() }
}

pub(crate) fn entry(mode: u16, kind: Kind<Seed>) -> Entry<Seed> {
    Entry { attributes: attributes(mode), kind, region: 0 }
}

pub(crate) fn folder() -> Entry<Seed> {
    entry(0o755, Kind::Directory)
}

pub(crate) fn file(seed: Seed, size: u64) -> Entry<Seed> {
    entry(0o644, Kind::File(Content { id: seed, size }))
}

pub(crate) fn tree(entries: impl IntoIterator<Item = (String, Entry<Seed>)>) -> Tree<Seed> {
    let root = (String::new(), folder());
    Tree::new([root].into_iter().chain(entries).collect::<BTreeMap<_, _>>()).expect("a tree")
}

/// A disk as a sparse file.
pub(crate) struct Image {
    folder: tempfile::TempDir,
}

impl Image {
    pub(crate) fn write(size: u64, pieces: &[Piece<Seed>]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("disk")).expect("a file");
        file.set_len(size).expect("a size");
        let mut end = 0;
        for piece in pieces {
            assert!(piece.offset >= end, "piece at {} overlaps the one before it, which ends at {end}", piece.offset);
            end = piece.offset + piece.length();
            let bytes = match &piece.source {
                Source::Bytes(bytes) => bytes.clone(),
                Source::Content { content: seed, from, length } => content(*seed, *from, *length),
            };
            file.write_all_at(&bytes, piece.offset).expect("written");
        }
        assert!(end <= size);
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a program and returns what it printed. The path of the image is the last argument.
    #[track_caller]
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).arg(self.path()).output().expect("the program runs");
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}", output.status);
        text
    }

    /// Checks the file system.
    #[track_caller]
    pub(crate) fn check(&self) {
        let text = self.run("e2fsck", &["-f", "-n"]);
        for word in ["Fix?", "Clear?", "WARNING", "optimiz", "checksum"] {
            assert!(!text.contains(word), "{text}");
        }
    }
}
