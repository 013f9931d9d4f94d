//! What ends the program early: a sentence for people and a code for programs.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Ends with this code.
    pub(crate) fn new(code: u8, problem: impl Display) -> Self {
        Self { code, message: problem.to_string(), hint: None }
    }

    /// What the user gave cannot be used: nothing was started.
    pub(crate) fn input(problem: impl Display) -> Self {
        Self::new(2, problem)
    }

    /// Something that should have worked did not.
    pub(crate) fn failed(problem: impl Display) -> Self {
        Self::new(1, problem)
    }

    /// A file or folder that the user named cannot be used.
    pub(crate) fn file(path: &Path, problem: impl Display) -> Self {
        Self::input(format_args!("{}: {problem}", path.display()))
    }

    /// An error and what it says of its causes.
    pub(crate) fn chain(code: u8, error: &(dyn Error + 'static)) -> Self {
        Self::new(code, chain(error))
    }

    /// The same, with what to do next.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }
}

/// An error with its causes, where they say more than it does.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let cause = inner.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|inner| inner as &(dyn Error + 'static))
        }
    }

    #[test]
    fn causes_that_say_nothing_new_are_left_out() {
        let inner = Layer("no such file", None);
        let middle = Layer("cannot read x: no such file", Some(Box::new(inner)));
        let outer = Layer("cannot start", Some(Box::new(middle)));
        assert_eq!(chain(&outer), "cannot start: cannot read x: no such file");
    }
}
