//! The wire server: where a machine says that it has started. Azure gives up on one that does not.

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::http::{Ask, Http};
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// Says that the machine has started.
pub fn report_ready(endpoints: &Endpoints, rules: Rules, wait: &dyn Wait, chance: u64) -> Result<(), Error> {
    let ask = Ask {
        url: format!("{}/provisioning/health", endpoints.wire_server.trim_end_matches('/')),
        headers: &[
            ("Content-Type", "application/json"),
            ("x-ms-guest-agent-name", concat!("kilnd v", env!("CARGO_PKG_VERSION"))),
        ],
        body: Some(br#"{"state":"Ready"}"#),
    };
    Http::new(chance).ask(&ask, rules, wait).map(drop)
}
