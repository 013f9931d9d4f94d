//! What a command answers on standard output: to people, or to programs.

use std::io::Write as _;

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// Form of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// Prints a value in the form that was asked for.
pub(crate) fn either<T: Serialize>(form: Output, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    match form {
        Output::Text => print(&text(value)),
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(value).map_err(Failure::failed)?)),
    }
}

/// Prints a text as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::failed(format_args!("standard output: {error}")))
}
