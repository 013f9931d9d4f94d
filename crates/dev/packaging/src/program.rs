//! The programs that are shipped.

/// A program of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Kiln,
    Kilnd,
}

impl Program {
    /// Its package and its binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kiln => "kiln",
            Self::Kilnd => "kilnd",
        }
    }

    /// The profile that it is shipped with.
    pub fn profile(self) -> &'static str {
        match self {
            Self::Kiln => "dist",
            Self::Kilnd => "kilnd",
        }
    }
}
