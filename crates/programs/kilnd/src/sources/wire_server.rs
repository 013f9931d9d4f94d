//! The wire server, to which a machine reports that it has started. Without the report Azure considers provisioning failed.

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::http::{Http, HttpRequest};
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// Reports that the machine has started.
pub fn report_ready(endpoints: &Endpoints, rules: Rules, wait: &dyn Wait, seed: u64) -> Result<(), Error> {
    let request = HttpRequest {
        url: format!("{}/provisioning/health", endpoints.wire_server.trim_end_matches('/')),
        headers: &[
            ("Content-Type", "application/json"),
            ("x-ms-guest-agent-name", concat!("kilnd v", env!("CARGO_PKG_VERSION"))),
        ],
        body: Some(br#"{"state":"Ready"}"#),
    };
    Http::new(seed).request(&request, rules, wait).map(drop)
}
