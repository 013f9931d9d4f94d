//! A record of the requests to the embedded Azure.

use std::sync::{Arc, Mutex};

use azure_core::http::Url;
use kiln_azure::wire::{Exchange, Recorder};

/// Method, path and status of each request to ARM.
#[derive(Debug, Default)]
pub(crate) struct Wire(Mutex<Vec<(String, String, u16)>>);

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

    /// All requests except reads.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = self.requests().into_iter().filter(|(method, ..)| method != "GET");
        writes.map(|(method, path, status)| format!("{method} {path} {status}")).collect()
    }
}

impl Recorder for Wire {
    fn record(&self, exchange: Exchange) {
        let path = Url::parse(&exchange.url).map_or(exchange.url.clone(), |url| url.path().to_owned());
        self.0.lock().unwrap().push((exchange.method, path, exchange.status));
    }
}
