//! ARM's error envelope.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an error answer says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorDetail {
    #[serde(deserialize_with = "text_or_nothing")]
    pub code: String,
    #[serde(deserialize_with = "text_or_nothing")]
    pub message: String,
    /// What part of the request it is about.
    pub target: Option<String>,
    #[serde(deserialize_with = "list_or_nothing")]
    pub details: Vec<ErrorDetail>,
}

#[derive(Deserialize)]
struct Envelope {
    error: ErrorDetail,
}

impl ErrorDetail {
    /// Reads an error answer. One without an envelope (a proxy's page, an empty body) is told by its status alone.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let bare = || Self {
            code: format!("Http{status}"),
            message: "the answer has no error envelope".into(),
            ..Self::default()
        };
        let Ok(envelope) = serde_json::from_slice::<Envelope>(body) else {
            // Some providers leave the envelope away.
            return serde_json::from_slice::<Self>(body).ok().filter(|d| !d.code.is_empty()).unwrap_or_else(bare);
        };
        if envelope.error.code.is_empty() { bare() } else { envelope.error }
    }

    /// Whether this or a cause of it has a code.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.code.eq_ignore_ascii_case(code) || self.details.iter().any(|d| d.has_code(code))
    }

    /// Whether this or a cause of it says something, in any letter case.
    pub(crate) fn says(&self, lower_case: &str) -> bool {
        self.message.to_ascii_lowercase().contains(lower_case) || self.details.iter().any(|d| d.says(lower_case))
    }
}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let Some(target) = self.target.as_deref().filter(|t| !t.is_empty()) {
            write!(f, " (target `{target}`)")?;
        }
        for cause in &self.details {
            write!(f, "; {cause}")?;
        }
        Ok(())
    }
}

fn text_or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn list_or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ErrorDetail>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_read_with_its_causes() {
        let body = br#"{"error":{"code":"OperationNotAllowed","message":"m","target":null,"details":[{"code":"TooManyRequests","target":"t","message":"n"}]}}"#;
        let detail = ErrorDetail::read(429, body);
        assert!(detail.has_code("toomanyrequests"));
        assert_eq!(detail.to_string(), "OperationNotAllowed: m; TooManyRequests: n (target `t`)");
    }

    #[test]
    fn an_answer_without_an_envelope_still_has_a_code() {
        assert_eq!(ErrorDetail::read(502, b"<html>").code, "Http502");
        assert_eq!(ErrorDetail::read(404, br#"{"code":"NotFound","message":"gone"}"#).code, "NotFound");
        assert_eq!(ErrorDetail::read(400, br#"{"error":"invalid_request"}"#).code, "Http400");
    }
}
