//! Results on standard output, as text for people or as JSON for programs.

use std::io::Write as _;

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// Format of the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for people
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// Prints a value in the selected format.
pub(crate) fn either<T: Serialize>(format: Output, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    match format {
        Output::Text => print(&text(value)),
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(value).map_err(Failure::failed)?)),
    }
}

/// Prints a text without a line break.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::failed(format_args!("cannot write to standard output: {error}")))
}
