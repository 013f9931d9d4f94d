//! JSON configuration files, with errors that name the position.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::error::{LoginError, Position};

pub(crate) struct JsonFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) text: &'a str,
}

impl JsonFile<'_> {
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, LoginError> {
        // Some tools write a byte order mark.
        let text = self.text.trim_start_matches('\u{feff}');
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            let inner = error.into_inner();
            LoginError::Field {
                path: self.path.to_owned(),
                position: Position { line: inner.line().max(1), column: inner.column().max(1) },
                field,
                problem: message_without_position(&inner),
            }
        })
    }

    /// Creates an error about a field. It points to the field's key, or to the start of the file if the field is missing.
    pub(crate) fn error(&self, field: &str, problem: impl Into<String>) -> LoginError {
        LoginError::Field {
            path: self.path.to_owned(),
            position: self.position_of(field),
            field: field.to_owned(),
            problem: problem.into(),
        }
    }

    fn position_of(&self, field: &str) -> Position {
        let quoted = format!("\"{field}\"");
        let is_key = |(at, _): &(usize, &str)| self.text[at + quoted.len()..].trim_start().starts_with(':');
        let at = self.text.match_indices(&quoted).find(is_key).map_or(0, |(at, _)| at);
        let before = &self.text[..at];
        let column = at - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
        Position { line: before.matches('\n').count() + 1, column }
    }
}

/// Returns `serde_json`'s message without its position, which is reported separately, and without the rejected value, which may be a
/// secret.
fn message_without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
    match (error.is_data(), message.split_once(", expected ")) {
        (true, Some((_, expected))) => format!("expected {expected}"),
        _ => message,
    }
}
