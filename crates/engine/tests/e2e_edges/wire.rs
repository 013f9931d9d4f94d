//! A record of the requests to the embedded Azure.

use std::sync::{Arc, Mutex};

use azure_core::http::Url;
use kiln_azure::wire::{Exchange, Recorder};
use serde_json::Value;

/// Method, path and status of each request to ARM, and the bodies.
#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Vec<(String, String, u16)>>, Mutex<Vec<Value>>);

impl Wire {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn requests(&self) -> Vec<(String, String, u16)> {
        self.0.lock().unwrap().clone()
    }

    /// The number of reads of resources of a type, for example `Microsoft.Compute/galleries/images`.
    pub(crate) fn reads_of(&self, kind: &str) -> usize {
        let is_of_kind = |path: &str| {
            let parts: Vec<&str> = path.split_once("/providers/").map_or("", |(_, rest)| rest).split('/').collect();
            let types = parts.iter().skip(1).step_by(2);
            parts.iter().take(1).chain(types).copied().collect::<Vec<_>>().join("/") == kind
        };
        self.requests().iter().filter(|(method, path, _)| method == "GET" && is_of_kind(path)).count()
    }

    /// The body of the first request with this method whose path contains a text.
    pub(crate) fn body(&self, method: &str, path: &str) -> Value {
        let requests = self.requests();
        let at = requests.iter().position(|(sent, to, _)| sent == method && to.contains(path));
        self.1.lock().unwrap()[at.unwrap_or_else(|| panic!("no {method} {path} in {requests:#?}"))].clone()
    }

    /// All requests except reads.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = self.requests().into_iter().filter(|(method, ..)| method != "GET");
        writes.map(|(method, path, status)| format!("{method} {path} {status}")).collect()
    }
}

impl Recorder for Wire {
    fn record(&self, exchange: Exchange) {
        let path = Url::parse(&exchange.url).map_or(exchange.url.clone(), |url| url.path().to_owned());
        self.1.lock().unwrap().push(serde_json::from_slice(&exchange.request_body).unwrap_or_default());
        self.0.lock().unwrap().push((exchange.method, path, exchange.status));
    }
}
