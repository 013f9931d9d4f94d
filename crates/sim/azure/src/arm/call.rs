//! A parsed ARM request and its answer.

use http::Method;
use serde_json::{Map, Value};

use super::error::ArmError;
use crate::world::roles::Principal;

/// The parts of a request that handlers use.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// `https://host:port`, for absolute URLs in answers.
    pub(crate) base: String,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) body: Map<String, Value>,
    pub(crate) caller: Principal,
}

impl Call {
    pub(crate) fn api_version(&self) -> &str {
        self.query.get("api-version").unwrap_or_default()
    }

    /// Returns a property of the body by its path, such as `properties.upgradePolicy.mode`.
    pub(crate) fn field(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('.');
        let mut at = self.body.get(parts.next()?)?;
        for part in parts {
            at = at.get(part)?;
        }
        (!at.is_null()).then_some(at)
    }

    /// Returns a required string property.
    pub(crate) fn text(&self, path: &str) -> Result<&str, ArmError> {
        self.field(path)
            .and_then(Value::as_str)
            .ok_or_else(|| ArmError::required(path.strip_prefix("properties.").unwrap_or(path)))
    }
}

/// The query of a URL. Names are case-insensitive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name).to_ascii_lowercase(), decode(value))
        });
        Self(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns whether `$expand` contains `what`.
    pub(crate) fn expands(&self, what: &str) -> bool {
        self.get("$expand").is_some_and(|list| list.split(',').any(|item| item.eq_ignore_ascii_case(what)))
    }
}

/// Percent-decodes a query or form body, where `+` means a space.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = (bytes[index] == b'%')
            .then(|| text.get(index + 1..index + 3))
            .flatten()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (hex, bytes[index]) {
            (Some(byte), _) => {
                out.push(byte);
                index += 2;
            }
            (None, b'+') => out.push(b' '),
            (None, byte) => out.push(byte),
        }
        index += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Percent-decodes a path, where `+` is literal.
pub(crate) fn decode_path(text: &str) -> String {
    decode(&text.replace('+', "%2B"))
}

/// The answer of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Option<Value>,
    pub(crate) etag: Option<String>,
    /// The long-running operation that the request started. ARM adds the headers for it.
    pub(crate) operation: Option<String>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, body: Some(body), etag: None, operation: None }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::new(200, body)
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, body: None, etag: None, operation: None }
    }

    pub(crate) fn with_etag(mut self, etag: Option<String>) -> Self {
        self.etag = etag;
        self
    }

    pub(crate) fn started(mut self, operation: String) -> Self {
        self.operation = Some(operation);
        self
    }
}

/// The result of a handler.
pub(crate) type HandlerResult = Result<Answer, ArmError>;
