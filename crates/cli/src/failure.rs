//! What ends the program early: a sentence for people and a code for programs.

use std::fmt::Display;
use std::path::Path;

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    /// What the user gave cannot be used: nothing was started.
    pub(crate) fn input(problem: impl Display) -> Self {
        Self { code: 2, message: problem.to_string() }
    }

    /// Something that should have worked did not.
    pub(crate) fn failed(problem: impl Display) -> Self {
        Self { code: 1, message: problem.to_string() }
    }

    /// A file or folder that the user named cannot be used.
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::input(format_args!("{}: {problem}", path.display()))
    }
}
