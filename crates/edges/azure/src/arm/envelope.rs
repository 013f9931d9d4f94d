//! ARM's error envelope.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The error in a response body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorDetail {
    #[serde(deserialize_with = "string_or_null")]
    pub code: String,
    #[serde(deserialize_with = "string_or_null")]
    pub message: String,
    /// The part of the request that the error refers to.
    pub target: Option<String>,
    #[serde(deserialize_with = "list_or_null")]
    pub details: Vec<ErrorDetail>,
}

#[derive(Deserialize)]
struct Envelope {
    error: ErrorDetail,
}

impl ErrorDetail {
    /// Parses an error response. Without an envelope (the page of a proxy, an empty body) the code is derived from the status.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let bare = || Self {
            code: format!("Http{status}"),
            message: "the response has no error envelope".into(),
            ..Self::default()
        };
        let Ok(envelope) = serde_json::from_slice::<Envelope>(body) else {
            // Some providers omit the outer `error` member.
            return serde_json::from_slice::<Self>(body).ok().filter(|d| !d.code.is_empty()).unwrap_or_else(bare);
        };
        if envelope.error.code.is_empty() { bare() } else { envelope.error }
    }

    /// Returns whether this error or one of its details has this code.
    pub(crate) fn has_code(&self, code: &str) -> bool {
        self.code.eq_ignore_ascii_case(code) || self.details.iter().any(|d| d.has_code(code))
    }

    /// Returns whether the message of this error or of one of its details contains a text, ignoring case.
    pub(crate) fn mentions(&self, lower_case: &str) -> bool {
        self.message.to_ascii_lowercase().contains(lower_case) || self.details.iter().any(|d| d.mentions(lower_case))
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

fn string_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn list_or_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ErrorDetail>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelope_is_parsed_with_its_details() {
        let body = br#"{"error":{"code":"OperationNotAllowed","message":"m","target":null,"details":[{"code":"TooManyRequests","target":"t","message":"n"}]}}"#;
        let detail = ErrorDetail::read(429, body);
        assert!(detail.has_code("toomanyrequests"));
        assert_eq!(detail.to_string(), "OperationNotAllowed: m; TooManyRequests: n (target `t`)");
    }

    #[test]
    fn response_without_envelope_gets_a_code_from_its_status() {
        assert_eq!(ErrorDetail::read(502, b"<html>").code, "Http502");
        assert_eq!(ErrorDetail::read(404, br#"{"code":"NotFound","message":"gone"}"#).code, "NotFound");
        assert_eq!(ErrorDetail::read(400, br#"{"error":"invalid_request"}"#).code, "Http400");
    }
}
