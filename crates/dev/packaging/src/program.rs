//! The programs of a release.

/// A program of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Kiln,
    Kilnd,
}

impl Program {
    /// The name of the package and of the binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kiln => "kiln",
            Self::Kilnd => "kilnd",
        }
    }

    /// The cargo profile of a release.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Kiln => "release",
            Self::Kilnd => "kilnd",
        }
    }
}
