//! JSON files of a user: what is wrong with them, and where.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::error::{LoginError, Place};

/// A JSON file that is being read.
pub(crate) struct JsonFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl JsonFile<'_> {
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, LoginError> {
        // Some tools put a byte order mark first.
        let text = self.text.trim_start_matches('\u{feff}');
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            let inner = error.into_inner();
            LoginError::Field {
                path: self.path.to_owned(),
                place: Place { line: inner.line().max(1), column: inner.column().max(1) },
                field,
                problem: without_place(&inner),
            }
        })
    }

    /// An error about a field: at its key where the file has it, at the start where it does not.
    pub(crate) fn error(&self, field: &str, problem: impl Into<String>) -> LoginError {
        LoginError::Field {
            path: self.path.to_owned(),
            place: self.place_of(field),
            field: field.to_owned(),
            problem: problem.into(),
        }
    }

    fn place_of(&self, field: &str) -> Place {
        let quoted = format!("\"{field}\"");
        let is_key = |(at, _): &(usize, &str)| self.text[at + quoted.len()..].trim_start().starts_with(':');
        let at = self.text.match_indices(&quoted).find(is_key).map_or(0, |(at, _)| at);
        let before = &self.text[..at];
        let column = at - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
        Place { line: before.matches('\n').count() + 1, column }
    }
}

/// `serde_json`'s words without its place, which is told apart from them. Its words quote a wrong value's text, which may be a secret.
fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words).to_owned();
    match (error.is_data(), words.split_once(", expected ")) {
        (true, Some((_, expected))) => format!("expected {expected}"),
        _ => words,
    }
}
