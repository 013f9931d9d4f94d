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
