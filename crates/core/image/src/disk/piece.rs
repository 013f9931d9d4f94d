//! A disk as a list of pieces. What no piece covers is zero.

/// A byte range of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<C> {
    /// The position of the first byte.
    pub offset: u64,
    pub source: Source<C>,
}

/// The content of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<C> {
    /// Bytes of the file system or the partition table.
    Bytes(Vec<u8>),
    /// A part of a file's content.
    Content { content: C, from: u64, length: u64 },
}

impl<C> Piece<C> {
    /// A piece that consists of bytes.
    pub fn bytes(offset: u64, bytes: Vec<u8>) -> Self {
        Self { offset, source: Source::Bytes(bytes) }
    }

    /// The number of bytes.
    pub fn length(&self) -> u64 {
        match &self.source {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Content { length, .. } => *length,
        }
    }

    /// The same piece further back, as in a partition.
    #[must_use]
    pub fn moved_by(self, offset: u64) -> Self {
        Self { offset: self.offset + offset, ..self }
    }
}
