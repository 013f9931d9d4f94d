//! The error type of the program: a message for people and an exit code for programs.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;

use kiln_types::error_chain;
pub(crate) use kiln_types::error_chain::to_line as chain;

/// An error that ends the program.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// What failed, followed by one indented line per cause.
    pub(crate) message: String,
    /// The command or setting that helps.
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, problem: impl Display) -> Self {
        Self { code, message: problem.to_string(), hint: None }
    }

    /// Invalid input (exit code 2). Nothing was started.
    pub(crate) fn input(problem: impl Display) -> Self {
        Self::new(2, problem)
    }

    /// The operation failed (exit code 1).
    pub(crate) fn failed(problem: impl Display) -> Self {
        Self::new(1, problem)
    }

    /// A file or folder that the user named is not usable (exit code 2).
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::input(format_args!("{}: {problem}", path.display()))
    }

    /// An error with its causes, one per line.
    pub(crate) fn chain(code: u8, error: &(dyn Error + 'static)) -> Self {
        Self::new(code, error_chain::messages(error).join("\n  "))
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
