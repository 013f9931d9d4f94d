//! A transport that answers from a list and records the requests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::http::headers::{HeaderName, Headers};
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use azure_core::time::OffsetDateTime;
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, RenewingCredential};
use kiln_azure::{Azure, AzureOptions};
use serde_json::Value;

pub(crate) const ARM: &str = "https://arm.example";
pub(crate) const GROUP: &str = "/subscriptions/s/resourceGroups/g/providers";

/// An expected request and its response.
pub(crate) struct Step {
    method: &'static str,
    path: String,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
    reset: bool,
}

/// Expects a request for a path with this suffix.
pub(crate) fn on(method: &'static str, path: impl Into<String>) -> Step {
    Step { method, path: path.into(), status: 200, headers: Vec::new(), body: String::new(), reset: false }
}

impl Step {
    pub(crate) fn answers(mut self, status: u16, body: &Value) -> Self {
        self.status = status;
        self.body = if body.is_null() { String::new() } else { body.to_string() };
        self
    }

    pub(crate) fn fails(self, status: u16, code: &str, message: &str) -> Self {
        self.answers(status, &serde_json::json!({"error": {"code": code, "message": message}}))
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn resets(mut self) -> Self {
        self.reset = true;
        self
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) authorization: Option<String>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) body: Value,
}

#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Inner>);

#[derive(Default)]
struct Inner {
    steps: Mutex<VecDeque<Step>>,
    requests: Mutex<Vec<RecordedRequest>>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Self::default();
        script.0.steps.lock().unwrap().extend(steps);
        script
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.0.requests.lock().unwrap().clone()
    }

    /// Checks that all expected requests were sent.
    pub(crate) fn assert_finished(&self) {
        let left = self.0.steps.lock().unwrap().len();
        assert_eq!(left, 0, "{left} expected requests were not sent; sent: {:#?}", self.requests());
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

#[async_trait]
impl HttpClient for Script {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let header = |name| request.headers().get_optional_string(&HeaderName::from_static(name));
        let body: azure_core::Bytes = request.body().into();
        let recorded = RecordedRequest {
            method: request.method().to_string(),
            path: request.url().path().to_owned(),
            query: request.url().query().unwrap_or_default().to_owned(),
            if_match: header("if-match"),
            if_none_match: header("if-none-match"),
            authorization: header("authorization"),
            client_request_id: header("x-ms-client-request-id"),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        self.0.requests.lock().unwrap().push(recorded.clone());
        let step = self.0.steps.lock().unwrap().pop_front();
        let step = step.unwrap_or_else(|| panic!("unexpected request: {} {}", recorded.method, recorded.path));
        assert_eq!(recorded.method, step.method, "{}", recorded.path);
        assert!(recorded.path.ends_with(&step.path), "{} {}, expected …{}", recorded.method, recorded.path, step.path);
        if step.reset {
            return Err(azure_core::Error::with_message(ErrorKind::Io, "connection reset by peer"));
        }
        let mut headers = Headers::new();
        for (name, value) in step.headers {
            headers.insert(name, value);
        }
        Ok(AsyncRawResponse::from_bytes(step.status.into(), headers, step.body))
    }
}

/// Returns a credential with the tokens `token-1`, `token-2`, …: each created credential has one token and keeps it.
pub(crate) fn tokens() -> (Arc<RenewingCredential>, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let factory = move || {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Arc::new(OneToken(format!("token-{number}"))) as Arc<dyn TokenCredential>)
    };
    (Arc::new(RenewingCredential::new(factory).unwrap()), made)
}

#[derive(Debug)]
struct OneToken(String);

#[async_trait]
impl TokenCredential for OneToken {
    async fn get_token(&self, scopes: &[&str], _: Option<TokenRequestOptions<'_>>) -> azure_core::Result<AccessToken> {
        assert_eq!(scopes, ["https://arm.example/.default"]);
        // Far in the future: in virtual time the simulated Azure decides when a token expires.
        Ok(AccessToken::new(self.0.clone(), OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap()))
    }
}

pub(crate) fn cloud() -> Cloud {
    Cloud::custom("scripted", "https://login.example", ARM, ARM).unwrap()
}

/// Returns a client for a script, in the resource group `g`.
pub(crate) fn azure(script: &Script) -> Azure {
    azure_as(script, tokens().0)
}

pub(crate) fn azure_as(script: &Script, credential: Arc<RenewingCredential>) -> Azure {
    let http = Arc::new(script.clone());
    let options = AzureOptions { cloud: cloud(), credential, http, jitter: Jitter::none(), recorder: None };
    Azure::new(Scope::new("s", "g").unwrap(), options)
}
