//! A request before it is sent.

use azure_core::Bytes;
use azure_core::http::headers::{CONTENT_TYPE, HeaderName};
use azure_core::http::{Method, Request, Url};
use kiln_types::Revision;
use serde::Serialize;

use super::api::Api;

const IF_MATCH: HeaderName = HeaderName::from_static("if-match");
const IF_NONE_MATCH: HeaderName = HeaderName::from_static("if-none-match");

/// The precondition of a write, sent as `If-Match` or `If-None-Match`.
#[derive(Debug, Clone)]
enum Precondition {
    None,
    Revision(Revision),
    Absent,
}

/// A request before it is sent. It has no `Debug` implementation because a body can contain custom data.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) api: Api,
    query: Vec<(&'static str, String)>,
    precondition: Precondition,
    body: Option<Bytes>,
    /// Whether the request is idempotent, so that it may be retried after a lost response.
    pub(crate) idempotent: bool,
}

impl Call {
    fn new(method: Method, path: impl Into<String>, api: Api) -> Self {
        Self {
            method,
            path: path.into(),
            api,
            query: Vec::new(),
            precondition: Precondition::None,
            body: None,
            idempotent: method != Method::Post,
        }
    }

    pub(crate) fn get(path: impl Into<String>, api: Api) -> Self {
        Self::new(Method::Get, path, api)
    }

    pub(crate) fn delete(path: impl Into<String>, api: Api) -> Self {
        Self::new(Method::Delete, path, api)
    }

    /// Creates an idempotent POST, such as stopping an instance that is already stopped.
    pub(crate) fn post_idempotent(path: impl Into<String>, api: Api) -> Self {
        Self { idempotent: true, ..Self::new(Method::Post, path, api) }
    }

    pub(crate) fn patch(path: impl Into<String>, api: Api, body: &impl Serialize) -> Self {
        Self::new(Method::Patch, path, api).body(body)
    }

    pub(crate) fn put(path: impl Into<String>, api: Api, body: &impl Serialize) -> Self {
        Self::new(Method::Put, path, api).body(body)
    }

    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(crate) fn if_match(mut self, revision: &Revision) -> Self {
        self.precondition = Precondition::Revision(revision.clone());
        self
    }

    pub(crate) fn if_absent(mut self) -> Self {
        self.precondition = Precondition::Absent;
        self
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        let json = serde_json::to_vec(body).expect("models have string keys and finite numbers only");
        self.body = Some(json.into());
        self
    }

    /// Builds the request without the headers that the pipeline adds.
    pub(crate) fn request(&self, endpoint: &Url) -> Request {
        let mut url = endpoint.clone();
        url.set_path(&self.path);
        url.query_pairs_mut().clear().append_pair("api-version", self.api.version()).extend_pairs(&self.query);
        let mut request = Request::new(url, self.method);
        match &self.precondition {
            Precondition::None => {}
            Precondition::Revision(revision) => request.insert_header(IF_MATCH, revision.as_str().to_owned()),
            Precondition::Absent => request.insert_header(IF_NONE_MATCH, "*"),
        }
        request.insert_header("accept", "application/json");
        if let Some(body) = &self.body {
            request.insert_header(CONTENT_TYPE, "application/json");
            request.set_body(body.clone());
        }
        request
    }
}
