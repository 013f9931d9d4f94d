//! ARM's error envelope.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An ARM error with its HTTP status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ArmError {
    /// HTTP status of an immediate answer. An operation that ends with this error is read with 200.
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
    /// The parameter or resource that the error is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// Code and message of inner errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) details: Vec<(String, String)>,
    /// Seconds for `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after: Option<u32>,
    /// `WWW-Authenticate` of a 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) challenge: Option<String>,
}

impl ArmError {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status: status.as_u16(),
            code: code.to_owned(),
            message: message.into(),
            target: None,
            details: Vec::new(),
            retry_after: None,
            challenge: None,
        }
    }

    pub(crate) fn bad(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn missing(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// A parameter that is missing or invalid.
    pub(crate) fn parameter(target: &str, message: impl Into<String>) -> Self {
        Self::bad("InvalidParameter", message).about(target)
    }

    pub(crate) fn required(target: &str) -> Self {
        Self::parameter(target, format!("Required parameter '{target}' is missing (null)."))
    }

    /// A property that cannot be changed after creation.
    pub(crate) fn immutable(target: &str) -> Self {
        Self::conflict("PropertyChangeNotAllowed", format!("Changing property '{target}' is not allowed."))
            .about(target)
    }

    pub(crate) fn about(mut self, target: &str) -> Self {
        self.target = Some(target.to_owned());
        self
    }

    pub(crate) fn detail(mut self, code: &str, message: &str) -> Self {
        self.details.push((code.to_owned(), message.to_owned()));
        self
    }

    /// The inner object of the envelope.
    pub(crate) fn json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(target) = &self.target {
            error["target"] = json!(target);
        }
        if !self.details.is_empty() {
            error["details"] =
                self.details.iter().map(|(code, message)| json!({"code": code, "message": message})).collect();
        }
        error
    }

    /// The whole response body.
    pub(crate) fn envelope(&self) -> Value {
        json!({"error": self.json()})
    }
}
